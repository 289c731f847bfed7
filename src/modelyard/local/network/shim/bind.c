/* Preloaded into programs of pods: a bind to every address, or to the shared loopback address, becomes a bind to the pod's own.
   A connection to the shared loopback address goes to the pod's own if something listens on that port there: containers of a
   pod find each other under 127.0.0.1, and what the machine itself offers there is found too. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int wildcard4(in_addr_t address) {
    return address == htonl(INADDR_ANY) || address == htonl(INADDR_LOOPBACK);
}

static int own_address(struct in_addr *pod) {
    const char *own = getenv("MODELYARD_POD_IP");
    return own && inet_pton(AF_INET, own, pod) == 1;
}

static void map_to_ipv6(struct sockaddr_in6 *address, struct in_addr pod) {
    memset(&address->sin6_addr, 0, sizeof address->sin6_addr);
    address->sin6_addr.s6_addr[10] = address->sin6_addr.s6_addr[11] = 0xff;
    memcpy(&address->sin6_addr.s6_addr[12], &pod, 4);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*plain)(int, const struct sockaddr *, socklen_t);
    if (!plain) plain = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
    struct in_addr pod;
    if (!own_address(&pod)) return plain(fd, address, length);
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in copy;
        memcpy(&copy, address, sizeof copy);
        if (wildcard4(copy.sin_addr.s_addr)) {
            copy.sin_addr = pod;
            return plain(fd, (struct sockaddr *)&copy, sizeof copy);
        }
    }
    if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 copy;
        memcpy(&copy, address, sizeof copy);
        if (IN6_IS_ADDR_UNSPECIFIED(&copy.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&copy.sin6_addr)) {
            int off = 0;
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
            map_to_ipv6(&copy, pod);
            return plain(fd, (struct sockaddr *)&copy, sizeof copy);
        }
    }
    return plain(fd, address, length);
}

/* The kernel's table says so without a connection that the listener would see. */
static int listens(struct in_addr pod, in_port_t port) {
    char line[512];
    unsigned address, number, state;
    int found = 0;
    FILE *table = fopen("/proc/net/tcp", "re");
    while (table && !found && fgets(line, sizeof line, table))
        found = sscanf(line, " %*d: %8X:%4X %*8X:%*4X %2X", &address, &number, &state) == 3 && state == 0x0A &&
                address == pod.s_addr && number == ntohs(port);
    if (table) fclose(table);
    return found;
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*plain)(int, const struct sockaddr *, socklen_t);
    if (!plain) plain = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    struct in_addr pod;
    int type = 0;
    socklen_t size = sizeof type;
    if (!address || !own_address(&pod) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM)
        return plain(fd, address, length);
    if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in copy;
        memcpy(&copy, address, sizeof copy);
        if (copy.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && listens(pod, copy.sin_port)) {
            copy.sin_addr = pod;
            return plain(fd, (struct sockaddr *)&copy, sizeof copy);
        }
    }
    if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 copy;
        memcpy(&copy, address, sizeof copy);
        if (IN6_IS_ADDR_LOOPBACK(&copy.sin6_addr) && listens(pod, copy.sin6_port)) {
            map_to_ipv6(&copy, pod);
            return plain(fd, (struct sockaddr *)&copy, sizeof copy);
        }
    }
    return plain(fd, address, length);
}
