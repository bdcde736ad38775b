# --cpu and SLUICE_CPU cap the instruction set; the option wins.
sluice 0 run -m "$DRAFT" -p a -n 1 --cpu scalar
err_has "scalar kernels"
SLUICE_CPU=scalar
export SLUICE_CPU
sluice 0 run -m "$DRAFT" -p a -n 1
err_has "scalar kernels"
SLUICE_CPU=fast
sluice 2 run -m "$DRAFT" -p a -n 1
err_has "environment variable SLUICE_CPU: expected one of auto|scalar|avx2|avx512, found 'fast'"
sluice 0 run -m "$DRAFT" -p a -n 1 --cpu scalar
err_has "scalar kernels"
