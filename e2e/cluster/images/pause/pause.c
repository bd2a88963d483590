/* Process 1 of every pod sandbox: holds the namespaces, reaps orphans, ends at once when told to. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_stop(int signal_number) {
    (void)signal_number;
    _exit(EXIT_SUCCESS);
}

static void on_child(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    const struct sigaction stop = {.sa_handler = on_stop};
    const struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGINT, &stop, NULL) || sigaction(SIGTERM, &stop, NULL) || sigaction(SIGCHLD, &child, NULL)) {
        return EXIT_FAILURE;
    }
    for (;;) {
        pause();
    }
}
