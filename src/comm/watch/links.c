/*
 * Connections between ranks that watch each other: TCP, because it is there wherever ranks are, and because the system
 * closes it when a process dies.
 */
#define _GNU_SOURCE /* accept4 */
#include "comm/watch/links.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECT_MS 3000

/* The addresses of this machine that others may reach. */
static void list_addresses(pdl__meeting_t *meeting)
{
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *one = all; one != NULL && meeting->addresses < PDL__MEETING_ADDRESSES;
         one = one->ifa_next) {
        struct sockaddr_in address;

        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET) continue;
        if ((one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP)) continue;
        memcpy(&address, one->ifa_addr, sizeof(address));
        meeting->address[meeting->addresses++] = address.sin_addr.s_addr;
    }
    freeifaddrs(all);
}

/* A descriptor for every rank, where the system allows it. */
static void make_room(int ranks)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= (rlim_t)ranks + 256) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

pdl__process_t pdl__process_self(void)
{
    struct stat space;

    return (pdl__process_t){.space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0,
                            .pid = (int32_t)getpid()};
}

/* Whether its number means something here; that it is a process of this machine is for the caller to know. */
static bool is_known(const pdl__process_t *process)
{
    return process->space != 0 && process->space == pdl__process_self().space && process->pid > 1;
}

void pdl__process_kill(const pdl__process_t *process)
{
    if (is_known(process) && process->pid != (int32_t)getpid()) kill(process->pid, SIGKILL);
}

double pdl__process_used_s(const pdl__process_t *process, bool *ready)
{
    unsigned long long user, system;
    char               path[64], text[1024], state;
    FILE              *file;

    *ready = false;
    if (!is_known(process)) return -1;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process->pid);
    file = fopen(path, "re");
    if (file == NULL) return -1;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';
    /* The name of the program may have anything in it, brackets too. */
    const char *rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &state, &user, &system) != 3)
        return -1;
    if (strchr("TtZX", state) != NULL) return -1;
    *ready = state == 'R';
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

int pdl__meeting_open(bool one_node, int ranks, pdl__meeting_t *meeting)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t          length = sizeof(address);
    int                listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *meeting = (pdl__meeting_t){0};
    if (listener < 0) return -1;
    make_room(ranks);
    address.sin_addr.s_addr = htonl(one_node ? INADDR_LOOPBACK : INADDR_ANY);
    if (getrandom(meeting->token, sizeof(meeting->token), 0) != (ssize_t)sizeof(meeting->token) ||
        bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, ranks) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        close(listener);
        return -1;
    }
    if (one_node)
        meeting->address[meeting->addresses++] = htonl(INADDR_LOOPBACK);
    else
        list_addresses(meeting);
    meeting->process = pdl__process_self();
    meeting->port = ntohs(address.sin_port);
    return listener;
}

static bool connect_in_time(int link, const struct sockaddr_in *address)
{
    struct pollfd ready = {.fd = link, .events = POLLOUT};
    int           failure = 0;
    socklen_t     length = sizeof(failure);

    if (connect(link, (const struct sockaddr *)address, sizeof(*address)) == 0) return true;
    if (errno != EINPROGRESS || poll(&ready, 1, CONNECT_MS) != 1) return false;
    return getsockopt(link, SOL_SOCKET, SO_ERROR, &failure, &length) == 0 && failure == 0;
}

int pdl__meeting_join(const pdl__meeting_t *meeting, int rank)
{
    pdl__frame_t  hello = {.kind = PDL__FRAME_HELLO, .rank = rank, .process = pdl__process_self()};
    pdl__outbox_t outbox = {.left = 0};

    memcpy(hello.token, meeting->token, sizeof(hello.token));
    for (int i = 0; i < meeting->addresses; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(meeting->port),
                                      .sin_addr = {meeting->address[i]}};
        int                link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (link < 0) return -1;
        if (connect_in_time(link, &address)) {
            setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
            pdl__outbox_send(link, &outbox, &hello);
            if (outbox.left == 0) return link;
        }
        close(link);
    }
    return -1;
}

int pdl__meeting_accept(int listener)
{
    int link = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (link >= 0) setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return link;
}

bool pdl__meeting_knows(const pdl__meeting_t *meeting, const pdl__frame_t *hello)
{
    unsigned char different = 0;

    for (size_t i = 0; i < sizeof(meeting->token); i++) different |= meeting->token[i] ^ hello->token[i];
    return hello->kind == PDL__FRAME_HELLO && different == 0;
}
