# Stop strings end the text, wherever tokens divide, and never show.
set -- -m "$MOE" -p "$LILY" --temp 0 -q
sluice 0 run "$@" --stop "ide in the sun" -n 64
out_is " She loved to play outs"
sluice 0 run "$@" --stop "no such text" --stop ". One" -n 64 --json
out_has '"text":" She loved to play outside in the sunshine","token_ids"'
out_has '"finish_reason":"stop"'
sluice 0 run "$@" --stop "sunshine!" -n 8 # could begin it at the end, and does not
out_is " She loved to play outside in the sunshine"
sluice 1 run "$@" --stop ""
err_has "stop string 1 of 1 is empty"
