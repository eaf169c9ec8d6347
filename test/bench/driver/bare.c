/* bare: starts QEMU in the fastest possible way, for comparison.
 *
 *   bare [-t SOCKET DIR PROGRAM ARG... --] QEMU ARG...
 *
 * With -t it first creates the listening socket for QEMU's TPM. After QEMU, it
 * starts PROGRAM (swtpm) in DIR with that socket as descriptor 3, so that neither
 * waits for the other. QEMU's monitor is one end of a socket pair, to which bare
 * writes all commands before QEMU reads them. It prints "cont" when QEMU has
 * acknowledged the last command, and ends both when its own input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char commands[] = "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"cont\"}\n";

static void die(const char *what) { perror(what); exit(1); }

static int listener(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) { fputs("socket path is too long\n", stderr); exit(1); }
    strcpy(address.sun_path, path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4)) die(path);
    return fd;
}

/* Starts a child with fd as its descriptor 3. */
static pid_t spawn(char **argv, const char *dir, int fd) {
    pid_t pid = vfork();
    if (pid == 0) {
        if (dir && chdir(dir)) _exit(126);
        if (fd == 3 ? fcntl(fd, F_SETFD, 0) : dup2(fd, 3) < 0) _exit(126);
        execv(argv[0], argv);
        _exit(127);
    }
    if (pid < 0) die("vfork");
    return pid;
}

/* Waits for both answers, and skips events and the greeting. */
static void await(int fd) {
    static char buf[1 << 16];
    size_t len = 0;
    for (;;) {
        ssize_t n = read(fd, buf + len, sizeof buf - 1 - len);
        char *first;
        if (n <= 0) die("QEMU closed its monitor");
        buf[len += n] = 0;
        if (strstr(buf, "\"error\"")) { fputs(buf, stderr); exit(1); }
        if ((first = strstr(buf, "\"return\"")) && strstr(first + 1, "\"return\"")) return;
    }
}

int main(int argc, char **argv) {
    pid_t tpm = 0, qemu;
    int pair[2], n = 0, fd = -1;
    char **helper = NULL, **qemu_argv, *dir = NULL, c;
    argv++, argc--;
    if (argc > 4 && !strcmp(argv[0], "-t")) {
        fd = listener(argv[1]);
        dir = argv[2];
        helper = argv + 3, argc -= 3;
        while (argc > 1 && strcmp(helper[n], "--")) n++, argc--;
        helper[n] = NULL;
        argv = helper + n + 1, argc--;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) die("socketpair");
    if (write(pair[0], commands, sizeof commands - 1) < 0) die("write commands");
    qemu_argv = calloc(argc + 6, sizeof *qemu_argv);
    for (n = 0; n < argc; n++) qemu_argv[n] = argv[n];
    qemu_argv[n++] = "-S";
    qemu_argv[n++] = "-chardev";
    qemu_argv[n++] = "socket,id=monitor-socket,fd=3";
    qemu_argv[n++] = "-mon";
    qemu_argv[n++] = "chardev=monitor-socket,mode=control";
    qemu = spawn(qemu_argv, NULL, pair[1]);
    close(pair[1]);
    if (helper) tpm = spawn(helper, dir, fd), close(fd);
    await(pair[0]);
    if (write(1, "cont\n", 5) < 0) die("write");
    while (read(0, &c, 1) > 0) {}
    kill(qemu, SIGKILL);
    waitpid(qemu, NULL, 0);
    if (tpm) kill(tpm, SIGKILL), waitpid(tpm, NULL, 0);
    return 0;
}
