# A pack takes the place of the folder; it is checked, told about, and never half there.
sluice 0 pack "$DRAFT" draft.pack
out_has "draft.pack: "
out_has "written"
sluice 0 pack "$MOE" moe.pack --verify -q
out_has "12 layers of 128 experts, all hashes right"
err_is ""
sluice 0 run -m "$MOE" -p "$LILY" -n 12 --temp 0 -q
keep folder
sluice 0 run -m moe.pack -p "$LILY" -n 12 --temp 0 -q --io threads --memory 30M -c 512
same folder out
sluice 0 eval -m "$MOE" --prompt "Once upon" -q
keep folder
sluice 0 eval -m moe.pack --prompt "Once upon" -q
same folder out

# A folder that holds nothing else means the pack in it.
mkdir alone
ln moe.pack alone/m.pack
sluice 0 inspect alone -q
out_has "pack, format version 1, made from"
out_has "  model-00001-of-00004.safetensors, 13.1 MiB, of 2"
sluice 0 inspect moe.pack --json -q
out_has '"pack":{"version":1,"file_bytes":'
out_has '"header_hash":"b89ab834ab8e6091"'
out_has '"expert_bytes_total":42467328'
sluice 0 inspect "$MOE" --json -q
out_has '"pack":null'

# An independent reader agrees.
reader=$MODELS/../tools/reference/read_pack.py
if command -v python3 >/dev/null; then
    last="read_pack.py moe.pack"
    python3 "$reader" moe.pack --against "$MOE" >out 2>err || fail "exit $?"
    out_has "49311744 bytes, 12 layers of 128 experts, 185 weights, 5 texts"
    out_has "equal to the folder"
    ! python3 "$reader" moe.pack --against "$DRAFT" >out 2>err || fail "equal to another model"
fi

# What is there stays, unless it is a pack and --force says so.
sluice 1 pack "$DRAFT" draft.pack
err_has "draft.pack: exists already; --force replaces a pack"
echo letters >letters
sluice 1 pack "$DRAFT" letters --force
err_has "exists and is no pack"
sluice 0 pack "$DRAFT" draft.pack --force
sluice 1 pack draft.pack other.pack
err_has "a pack already"
sluice 1 pack "$DRAFT" none/draft.pack
err_has "No such file or directory"

# Damage is found and named.
sluice 0 pack --verify moe.pack
out_has "all hashes right"
printf 'x' | dd of=moe.pack bs=1 seek=30000000 conv=notrunc 2>/dev/null
sluice 1 pack --verify moe.pack
err_has "expert 94 of layer 6 is damaged: 27648 bytes at 29986816"
out_is ""
printf 'x' | dd of=moe.pack bs=1 seek=100 conv=notrunc 2>/dev/null
sluice 1 run -m moe.pack -p a
err_has "the pack's index is damaged"
head -c 1000000 draft.pack >short.pack
sluice 1 inspect short.pack
err_has "the pack is cut short"
sluice 1 pack --verify "$MOE"
err_has "no pack"

# A limit on file size is a full disk: said before work, nothing left behind.
(
    ulimit -f 1000
    sluice 1 pack "$MOE" limited.pack
    err_has "limited.pack: cannot reserve 49311744 bytes: "
) || exit 1
[ ! -e limited.pack ] && [ ! -e limited.pack.partial ] || fail "something is left of it"

# Ctrl-C removes what was made so far; a kill leaves it, and the next run starts over.
stop() {
    last="pack, stopped by $1"
    tries=0
    rm -f big.pack
    while :; do
        tries=$((tries + 1))
        [ $tries -lt 50 ] || fail "always finished first"
        "$program" pack "$MOE" big.pack >out 2>err &
        pid=$!
        until [ -s big.pack.partial ] || [ -e big.pack ] || ! kill -0 $pid 2>/dev/null; do :; done
        kill -"$1" $pid 2>/dev/null
        wait $pid
        got=$?
        [ ! -e big.pack ] && break
        rm -f big.pack
    done
}
stop INT
[ $got = 130 ] || fail "exit $got, expected 130"
[ ! -e big.pack.partial ] || fail "the partial file is left"
stop KILL 2>/dev/null
[ -e big.pack.partial ] || fail "no partial file is left"
sluice 1 inspect big.pack.partial
err_has "an unfinished pack"
sluice 0 pack "$MOE" big.pack --verify
[ ! -e big.pack.partial ] || fail "the partial file is left"

# Where mounting is allowed: a file system that is too small.
mkdir disk
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=20m tmpfs disk 2>/dev/null; then
    (
        sluice 1 pack "$MOE" disk/m.pack
        err_has "disk/m.pack: no room: needs 49311744 bytes, the file system has "
        [ -z "$(ls -A disk)" ] || fail "something is left on the disk"
        sluice 0 pack "$DRAFT" disk/d.pack
    )
    got=$?
    umount disk
    [ $got = 0 ] || exit 1
fi
