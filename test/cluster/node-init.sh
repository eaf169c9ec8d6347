#!/bin/sh
# The first process of a node, in its own namespaces. node.go sets its environment: the folders PROGRAMS, PACKAGES,
# IMAGES and DIR, the node's NAME and CGROUP, its ADDRESS and GATEWAY, PODS (the range of its pods' addresses), and
# ROUTES ("RANGE ADDRESS" of the other nodes).
set -eu
until_ok() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || {
            echo "gave up on: $*" >&2
            exit 1
        }
        sleep 0.1
    done
}
PATH=$PROGRAMS:$PACKAGES/usr/bin:$PACKAGES/usr/sbin:$PATH
hostname "$NAME"

mount --make-rprivate / # the following mounts are invisible outside
mount -t proc proc /proc

# Mount /sys of this network namespace, with the machine's cgroups.
mkdir -p "$DIR/cgroup"
mount --rbind /sys/fs/cgroup "$DIR/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$DIR/cgroup" /sys/fs/cgroup
umount -l "$DIR/cgroup"
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib # kubelet uses fixed paths for some sockets
mkdir /var/lib/kubelet
mount --bind "$DIR/kubelet" /var/lib/kubelet
mount --bind "$DIR/log" /var/log
mount --make-rshared /

# Fake the values that a kubelet would set for the whole machine.
seems() {
    echo "$2" >"$DIR/${1##*/}"
    mount --bind "$DIR/${1##*/}" "$1"
}
seems /proc/sys/vm/overcommit_memory 1
seems /proc/sys/kernel/panic 10
seems /proc/sys/kernel/panic_on_oops 1

# Create a cgroup for the node, with version 1 in each hierarchy.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup/$CGROUP"
else
    awk '$3 == "cgroup" && $2 ~ "^/sys/fs/cgroup/" { print $2 }' /proc/self/mounts | while read -r hierarchy; do
        mkdir -p "$hierarchy/$CGROUP"
    done
    for file in cpuset.cpus cpuset.mems; do
        cat "/sys/fs/cgroup/cpuset/$file" >"/sys/fs/cgroup/cpuset/$CGROUP/$file"
    done
fi

until_ok ip link show eth0
ip link set lo up
ip addr add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
echo "$ROUTES" | while read -r range address; do
    [ -z "$range" ] || ip route add "$range" via "$address"
done
echo 1 >/proc/sys/net/ipv4/ip_forward

containerd -c "$DIR/containerd.toml" >"$DIR/containerd.log" 2>&1 &
until_ok ctr version
for image in "$IMAGES"/*.tar; do
    ctr -n k8s.io images import "$image"
done
while :; do # restart it like a service manager
    kubelet --config "$DIR/kubelet.yaml" --kubeconfig "$DIR/kubelet.kubeconfig" \
        --hostname-override "$NAME" --node-ip "$ADDRESS" >>"$DIR/kubelet.log" 2>&1 || sleep 1
done &
kube-proxy --config "$DIR/proxy.yaml" --hostname-override "$NAME" >"$DIR/proxy.log" 2>&1 &
wait
