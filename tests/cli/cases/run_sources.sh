# The same prompt from everywhere.
set -- -m "$DRAFT" -n 12 --temp 0 -q
sluice 0 run "$@" -p "$LILY"
keep from_option
printf '%s' "$LILY" >prompt.txt
sluice 0 run "$@" -f prompt.txt
same from_option out
sluice 0 run "$@" --file=prompt.txt --raw
same from_option out
printf '[1794, 649, 267, 551, 20, 460, 316, 267, 479, 795, 1745, 1780, 22]' >ids.json
sluice 0 run "$@" --token-ids ids.json
same from_option out
cp prompt.txt in
sluice 0 run "$@"
same from_option out
sluice 0 run "$@" -f -
same from_option out
cp ids.json in
sluice 0 run "$@" --token-ids -
same from_option out
rm in

sluice 1 run "$@" -f missing.txt
err_has "missing.txt: cannot open: No such file or directory"
sluice 1 run "$@" -p ""
err_has "the prompt is empty"
printf '[1, 8192]' >large.json
sluice 1 run "$@" --token-ids large.json
err_has "large.json: id 1 is 8192, but the model's ids go from 0 to 8191"
printf '[1, 2' >short.json
sluice 1 run "$@" --token-ids short.json
err_has "short.json: line 1, column"
sluice 1 run -m missing -p x
err_has "missing"
