#!/bin/busybox sh
# udhcpc runs this script, which applies the DHCP server's settings and reports them.
. /lib/report.sh
case $1 in
bound | renew)
    ip address flush dev "$interface"
    ip address add "$ip/$mask" dev "$interface"
    for gateway in $router; do
        ip route replace default via "$gateway" dev "$interface"
    done
    : >/etc/resolv.conf
    for server in $dns; do
        echo "nameserver $server" >>/etc/resolv.conf
    done
    say "net $interface lease=$ip/$mask router=$router dns=$dns hostname=$hostname server=$serverid seconds=$lease"
    ;;
deconfig)
    ip address flush dev "$interface"
    ;;
esac
