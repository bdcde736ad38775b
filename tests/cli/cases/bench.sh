# Runs at several budgets and modes: a table, a file of figures, a plot.
sluice 0 bench -m "$MOE" --expert-cache 10%,40M --stream-mode full,serial --policy lru --rounds 1 \
    -n 6 -c 128 -p "$LILY" --csv out.csv --svg out.svg -q
err_is ""
out_has "6 tokens after a prompt of 13 from $MOE"
out_has "| expert cache | mode | policy | peak memory |"
[ "$(grep -c '^| [14]0[%M] | [a-z]* | [a-z]* | [0-9.]* MiB |' out)" = 4 ] ||
    fail "not one row a configuration"
grep -q '^| 40M | full | lru | .* 0 % |\|^| 40M | full | lru |.*(memory\|disk) | [0-9]* % |$' out ||
    fail "no roofline"
[ "$(wc -l <out.csv)" = 5 ] || fail "not one line a run and one above"
tr -d '\r' <out.csv | awk '
    { gsub(/"[^"]*"/, "x"); n = gsub(/,/, ","); if (NR == 1) columns = n; if (n != columns) exit 1 }' ||
    fail "rows of different length"
for column in machine,model budget stream_mode threads n_slots decode_tokens_per_s bytes_read \
    peak_rss_bytes process_read_bytes disk_bytes_per_s misses_per_token roofline_tokens_per_s; do
    head -1 out.csv | grep -q "$column" || fail "no column $column"
done
grep -q '^<svg ' out.svg || fail "no picture"
[ "$(grep -c '<circle' out.svg)" = 4 ] || fail "not one point a configuration"
if command -v xmllint >xmllint_path; then
    xmllint --noout out.svg || fail "the picture is not XML"
fi

# Every round is a run; what is not varied has no column.
sluice 0 bench -m "$MOE" --rounds 2 -n 3 -c 64 --csv out.csv -q
out_has "| memory limit | peak memory |"
out_has "2 alternating rounds"
[ "$(wc -l <out.csv)" = 3 ] || fail "not two runs"
sluice 0 bench -m "$DRAFT" --rounds 1 -n 3 -c 64 -q
out_has "(memory)"

# A cgroup, where this user may make one: the run keeps within it.
"$program" bench -m "$MOE" --memory 40M --cgroup --rounds 1 -n 3 -c 64 --csv out.csv -q \
    >out 2>err </dev/null
case $? in
0) tail -1 out.csv | grep -q ",$(((40 + 64) * 1048576))," || fail "no limit in the figures" ;;
1) err_has "--cgroup needs " ;;
*) fail "exit $?" ;;
esac

# What does not fit is left out, and said.
sluice 0 bench -m "$MOE" --memory 1M,40M --rounds 1 -n 3 -c 64 -q
out_has "| 1M | does not fit | | needs "
grep -q '^| 40M | [0-9.]* MiB |' out || fail "the one that fits is missing"

# What fails says so, and what was measured before is not lost.
sluice 1 bench -m "$MOE" --memory 1M --rounds 1 -q
err_has "does not fit into 1M"
sluice 1 bench -m "$MOE" --predict sideways --rounds 1 -q
err_has "sideways"
sluice 1 bench -m "$DRAFT" --expert-cache 50% --rounds 1 -q
err_has "option --expert-cache has no effect"
sluice 1 bench -m "$MOE" --csv /nowhere/x.csv -q
err_has "/nowhere/x.csv"
sluice 1 bench -m "$MOE" --token-ids missing --rounds 1 -q
err_has "missing"
