/*
 * A page is no terminal.
 */
#ifndef PDL_CORE_SYS_IOCTL_H
#define PDL_CORE_SYS_IOCTL_H

struct winsize {
    unsigned short ws_col;
};
#define TIOCGWINSZ                0
#define ioctl(file, request, out) ((void)(out), -1)

#endif
