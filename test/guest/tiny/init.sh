#!/bin/busybox sh
# The tiny guest's first program. It loads the drivers, looks at the machine the
# way an operating system would, reports on the serial console in lines
#
#   TINY <seconds since boot> <subject> <key>=<value> …
#
# of which the last is "TINY <seconds> READY", and then answers commands, one a
# line, on the serial console and on every virtio-serial port called org.tiny.*;
# "help" lists them. What can be said on the kernel's command line:
#
#   tiny.dhcp      take a lease on every network card instead of 10.0.2.15
#   tiny.ip=A/N    this address on eth0 instead of 10.0.2.15/24
#   tiny.gw=A      this default route instead of 10.0.2.2
#   tiny.nopower   do not power off when the ACPI power button is pressed
#   tiny.debug     leave the kernel's messages on the console

export PATH=/bin
/bin/busybox --install -s /bin

mount -t devtmpfs dev /dev 2>/dev/null # the kernel may have done so already
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
ln -sf /proc/self/fd /dev/fd

. /lib/report.sh
. /lib/answer.sh

# drivers loads the modules that the image brought along, in their order.
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

# bindtpm binds the driver of a TPM 2.0 again until the driver knows the TPM's version. The
# driver waits for each answer for a second or so. A busy host's swtpm needs more, and the
# kernel then gives up, or takes the TPM for one that needs new firmware.
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
    for device in /dev/tpm[0-9]*; do # the kernel may still use the number 0 for the first try
        [ -e /dev/tpm0 ] || ln -s "$device" /dev/tpm0
    done
}

# plugged brings online what was plugged before the listener for uevents ran.
plugged() {
    for cpu in /sys/devices/system/cpu/cpu[0-9]*/online; do
        [ "$(cat "$cpu" 2>/dev/null)" = 0 ] && echo 1 >"$cpu"
    done
    for block in /sys/devices/system/memory/memory[0-9]*/state; do
        [ "$(cat "$block" 2>/dev/null)" = offline ] && echo online_movable >"$block"
    done
}

# powerbuttons powers off when a power button is pressed. Not every busybox has
# an acpid, so it reads struct input_event (24 bytes) from the kernel itself.
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

# network gives every card its address, and the world a page to fetch.
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

# ports answers commands on the virtio-serial ports that are ours. A port that
# isn't open on the host's side reads as ended, hence the loop; a port
# can be opened only once, hence one descriptor for both directions.
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

flag tiny.debug || dmesg -n 1 # no kernel message may tear a line apart
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
