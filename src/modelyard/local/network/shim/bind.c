/* Preloaded into programs of pods: a bind to every address, or to the shared loopback address, becomes a bind to the pod's own. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int wildcard4(in_addr_t address) {
    return address == htonl(INADDR_ANY) || address == htonl(INADDR_LOOPBACK);
}

int bind(int fd, const struct sockaddr *address, socklen_t length) {
    static int (*plain)(int, const struct sockaddr *, socklen_t);
    if (!plain) plain = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
    const char *own = getenv("MODELYARD_POD_IP");
    struct in_addr pod;
    if (!own || inet_pton(AF_INET, own, &pod) != 1) return plain(fd, address, length);
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
            memset(&copy.sin6_addr, 0, sizeof copy.sin6_addr);
            copy.sin6_addr.s6_addr[10] = copy.sin6_addr.s6_addr[11] = 0xff;
            memcpy(&copy.sin6_addr.s6_addr[12], &pod, 4);
            return plain(fd, (struct sockaddr *)&copy, sizeof copy);
        }
    }
    return plain(fd, address, length);
}
