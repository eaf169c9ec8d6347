#!/bin/busybox sh
# uevent runs this script for every device that appears, disappears or changes. The script brings processors and memory
# online, and reports.
. /lib/report.sh
name=${DEVPATH##*/}
case $ACTION:$SUBSYSTEM in
add:cpu)
    echo 1 >"/sys$DEVPATH/online" 2>/dev/null
    say "hotplug cpu add $name online=$(cat /sys/devices/system/cpu/online)"
    ;;
remove:cpu)
    say "hotplug cpu remove $name online=$(cat /sys/devices/system/cpu/online)"
    ;;
add:memory)
    echo online_movable >"/sys$DEVPATH/state" 2>/dev/null
    say "hotplug memory add $name state=$(cat "/sys$DEVPATH/state")"
    ;;
add:block | remove:block | add:net | remove:net | remove:memory)
    say "hotplug $SUBSYSTEM $ACTION $name"
    ;;
change:block)
    say "hotplug block change $name media=$DISK_MEDIA_CHANGE eject=$DISK_EJECT_REQUEST"
    ;;
esac
