#!/usr/bin/env bash
#
# fresh_debian.sh [FOLDER] - does a newcomer's start work? As root, for developers; not part of the
# test run. Makes a minimal Debian 12 in a chroot (in FOLDER, else in /var/tmp), copies a clone of
# the committed tree into it, and runs there
#   1. ./quickstart as an ordinary user without sudo: must refuse and name the packages;
#   2. ./quickstart as root: must install them, build, and stream a story;
#   3. ./quickstart as an ordinary user again: must find everything there;
#   4. ./quickstart test as root.
# The chroot is removed afterwards, also on failure. Packages come from this machine's mirror.

set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
[ "$EUID" -eq 0 ] || { echo "fresh_debian.sh: must run as root" >&2; exit 1; }
for tool in debootstrap git; do
  command -v $tool >/dev/null || { echo "fresh_debian.sh: needs $tool" >&2; exit 1; }
done

# In a mount namespace of its own, nothing that is mounted below reaches the machine's own tree.
if [ -z "${SLUICE_FRESH_DEBIAN:-}" ]; then
  export SLUICE_FRESH_DEBIAN=inside
  exec unshare --mount --propagation private -- "$0" "$@"
fi

root=$(mktemp -d "${1:-/var/tmp}/sluice-debian.XXXXXX")
chmod 755 "$root" # an ordinary user lives in it

clean_up() {
  local mounted
  for mounted in dev/shm dev proc sys; do
    if mountpoint -q "$root/$mounted"; then umount "$root/$mounted"; fi
  done
  # Nothing of the host may be mounted below when files are removed.
  if grep -qF " $root/" /proc/mounts; then
    echo "fresh_debian.sh: still mounted below $root, left in place" >&2
    return
  fi
  rm -rf "$root"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say() { printf '\n#### %s\n' "$*"; }
inside() { chroot "$root" env -i HOME="$1" PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"; }
as_root() { inside /root sh -c "cd /src/root && $1"; }
as_user() { inside /src/user setpriv --reuid=1000 --regid=1000 --clear-groups sh -c "cd /src/user && $1"; }

# "URI SUITE" of each Debian index that this machine uses.
mirrors=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' \
  'Created-By: Packages' 'Origin: Debian' 'Component: main' | LC_ALL=C sort -u)
mirror=$(awk '$2 == "bookworm" { print $1; exit }' <<<"$mirrors")
mirror=${mirror:-http://deb.debian.org/debian/}

say "Minimal Debian 12 from $mirror"
debootstrap --variant=minbase bookworm "$root" "$mirror"
awk '$2 ~ /^bookworm/ { print "deb", $1, $2, "main" }' <<<"$mirrors" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sys "$root/sys"
mount --bind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"

mkdir "$root/src"
git clone -q --no-hardlinks "$source_dir" "$root/src/root"
cp -a "$root/src/root" "$root/src/user"
chown -R 1000:1000 "$root/src/user"

say "Ordinary user, packages missing, no sudo: must refuse"
if as_user ./quickstart 2>&1 | tee "$root/refusal"; then
  echo "fresh_debian.sh: ./quickstart went on without its packages" >&2
  exit 1
fi
grep -q 'apt-get install .*libjansson-dev' "$root/refusal"

say "Root: ./quickstart"
as_root ./quickstart
say "Ordinary user: ./quickstart"
as_user ./quickstart
say "Root: ./quickstart test"
as_root './quickstart test'
say "All four went as they should"
