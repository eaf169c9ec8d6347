# The commands of the tiny guest. init sources this file.

# answers reads commands, one per line, until its input ends.
answers() {
    while read -r command arguments; do
        answer "$command" "$arguments"
    done
}

answer() {
    case $1 in
    '') ;;
    ping) echo pong ;;
    seed | machine | firmware | tpm | cpus | memory | blocks | nets | pci)
        "$1"
        echo ok
        ;;
    status) echo "status $(cpus) $(memory) $(machine) up=$(cut -d' ' -f1 /proc/uptime)" ;;
    poweroff | reboot | halt)
        echo ok
        end "$1"
        ;;
    panic)
        echo ok
        echo c >/proc/sysrq-trigger
        ;;
    sh)
        (eval "$2") </dev/null 2>&1
        echo "rc=$?"
        ;;
    help)
        echo "ping status poweroff reboot halt panic sh COMMAND"
        echo "seed machine firmware tpm cpus memory blocks nets pci"
        ;;
    *) echo "unknown command $1, try help" ;;
    esac
}
