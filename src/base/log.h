/* Messages to the person who runs the program. The library never prints: it calls the sink that
 * the caller put in slc_log. There is no global logger; a `const slc_log *` is handed down. */
#ifndef SLC_BASE_LOG_H
#define SLC_BASE_LOG_H

typedef enum slc_log_level { SLC_LOG_WARN = 0, SLC_LOG_INFO = 1, SLC_LOG_DEBUG = 2 } slc_log_level;

typedef struct slc_log {
    /* One finished line without newline; level is an slc_log_level. Called on the thread that has
     * something to say. */
    void (*sink)(void *user, int level, const char *line);
    void *user;
    slc_log_level max_level;
} slc_log;

/* Formats and delivers one line. `log` may be NULL: then nothing happens. */
void slc_logf(const slc_log *log, slc_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
