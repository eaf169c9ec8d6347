/* mark: stands in for QEMU. Writes when it was started, CLOCK_MONOTONIC in
 * nanoseconds, to the file that is named as itself with ".time" appended. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct timespec now;
    char path[4096], text[32];
    int fd, n;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s.time", argv[0]);
    n = snprintf(text, sizeof text, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return argc < 1 || fd < 0 || write(fd, text, n) != n;
}
