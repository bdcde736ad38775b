# Help, version, and words that are no command.
sluice 0 --version
out_has "sluice 0."
err_is ""
sluice 0 --help
for command in run inspect eval synth; do
    out_has "  $command "
    sluice 0 $command --help
    out_has "usage: sluice $command"
    out_has "Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted."
    err_is ""
    keep help
    sluice 0 help $command
    same help out
    sluice 0 --help
done
sluice 2
out_is ""
err_has "usage: sluice COMMAND"
sluice 2 inspct
err_has "unknown command 'inspct': did you mean 'inspect'?"
sluice 2 --verzion
err_has "unknown option '--verzion'"
