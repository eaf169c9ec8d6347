#!/bin/busybox sh
# The tiny guest's first program. It loads the drivers, examines the machine like an operating system, and reports on
# the serial console in lines
#
#   TINY <seconds since boot> <subject> <key>=<value> …
#
# The last line is "TINY <seconds> READY". It then answers commands, one per line, on the serial console and on every
# virtio-serial port with the prefix org.tiny. "help" lists the commands. These words are possible on the kernel command
# line:
#
#   tiny.dhcp      take a lease on every network card instead of 10.0.2.15
#   tiny.ip=A/N    this address on eth0 instead of 10.0.2.15/24
#   tiny.gw=A      this default route instead of 10.0.2.2
#   tiny.nopower   do not power off when the ACPI power button is pressed
#   tiny.debug     leave the kernel's messages on the console

export PATH=/bin
/bin/busybox --install -s /bin

mount -t devtmpfs dev /dev 2>/dev/null # the kernel may have done it
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
ln -sf /proc/self/fd /dev/fd

. /lib/report.sh
. /lib/answer.sh

# drivers loads the modules of the image in order.
drivers() {
    loaded=0
    while read -r module; do
        case $module in
        */efivarfs.ko) [ -d /sys/firmware/efi ] || continue ;;
        esac
        if insmod "$module" 2>/tmp/error; then
            loaded=$((loaded + 1))
        else
            say "driver ${module##*/} error=$(cat /tmp/error)"
        fi
    done </etc/modules.list
    say "drivers loaded=$loaded"
}

# bindtpm rebinds the driver of a TPM 2.0 until the driver knows the TPM's version. The driver waits about a second for
# each answer. On a busy host, swtpm needs longer, and the kernel gives up or assumes that the TPM needs new firmware.
bindtpm() {
    tpm=MSFT0101:00
    [ -e /sys/bus/acpi/devices/$tpm ] || return
    tries=1
    until cat /sys/class/tpm/tpm*/tpm_version_major >/dev/null 2>&1 || [ $tries = 60 ]; do
        [ $tries = 1 ] && say "driver tpm failed"
        for driver in /sys/bus/platform/drivers/tpm_tis /sys/bus/acpi/drivers/tpm_crb; do
            [ -e $driver/$tpm ] && echo $tpm >$driver/unbind
            echo $tpm >$driver/bind
        done 2>/dev/null
        tries=$((tries + 1))
        sleep 1
    done
    [ $tries = 1 ] || say "driver tpm tries=$tries"
    for device in /dev/tpm[0-9]*; do # the kernel may still use the number 0 for the first attempt
        [ -e /dev/tpm0 ] || ln -s "$device" /dev/tpm0
    done
}

# plugged brings devices online that were plugged before the uevent listener ran.
plugged() {
    for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
        [ "$(cat "$cpu" 2>/dev/null)" = 0 ] && echo 1 >"$cpu"
    done
    for block in /sys/devices/system/memory/memory[0-9]*/state; do
        [ "$(cat "$block" 2>/dev/null)" = offline ] && echo online_movable >"$block"
    done
}

# powerbuttons powers off when a power button is pressed. It reads struct input_event (24 bytes) from the kernel,
# because some versions of busybox lack acpid.
powerbuttons() {
    for event in /dev/input/event*; do
        grep -q 'ower Button' "/sys/class/input/${event##*/}/device/name" 2>/dev/null || continue
        say "powerbutton device=$event"
        pressed <"$event" &
    done
}

pressed() {
    while key=$(bytes 24) && [ -n "$key" ]; do
        case $key in
        *0100740001000000) # type 1 (key), code 0x74 (power), value 1 (down), little-endian
            say "powerbutton pressed"
            [ -e /tmp/nopower ] || flag tiny.nopower || end poweroff
            ;;
        esac
    done
}

# network sets the address of every card, and serves a web page.
network() {
    ip link set lo up
    for card in /sys/class/net/eth*; do
        [ -e "$card" ] && address "${card##*/}"
    done
    mkdir -p /www
    echo "hello from tiny" >/www/index.html
    httpd -p 80 -h /www
}

address() {
    ip link set "$1" up
    if flag tiny.dhcp; then
        udhcpc -i "$1" -t 15 -T 2 -n -s /bin/lease >/dev/null 2>&1 || say "net $1 lease=none"
    elif [ "$1" = eth0 ]; then
        ip address add "$(value tiny.ip 10.0.2.15/24)" dev eth0
        ip route add default via "$(value tiny.gw 10.0.2.2)" 2>/dev/null
    fi
}

# ports answers commands on our virtio-serial ports. A port that is not open on the host side returns end-of-file, so it
# loops. A port can be opened only once, so it uses one descriptor for both directions.
ports() {
    for port in /sys/class/virtio-ports/vport*; do
        [ -e "$port/name" ] || continue
        name=$(cat "$port/name")
        say "port name=$name device=/dev/${port##*/}"
        case $name in
        org.tiny.*) while :; do
            answers <>"/dev/${port##*/}" >&0
            usleep 200000
        done & ;;
        esac
    done
}

flag tiny.debug || dmesg -n 1 # kernel messages must not split a line
say "init kernel=$(uname -r)"
drivers
bindtpm
uevent /bin/hotplug >/dev/null 2>&1 &
plugged
powerbuttons
network
tell seed
tell machine
tell firmware
tell tpm
tell cpus
tell memory
tell blocks
tell nets
ports
say READY
while :; do
    answers </dev/console >/dev/console
    sleep 1
done
