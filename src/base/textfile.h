/* The small text files of /proc, /sys and the cgroup trees. */
#ifndef SLC_BASE_TEXTFILE_H
#define SLC_BASE_TEXTFILE_H

#include <stdio.h>

/* dir/name for reading; NULL if it cannot be opened or the path is too long. */
FILE *slc_textfile_open(const char *dir, const char *name);

#endif
