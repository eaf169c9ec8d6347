# Functions that report the tiny guest's view of the machine. Each prints lines "<subject> <key>=<value> …". init,
# hotplug and lease source this file.

# say prints one report line on the serial console.
say() {
    printf 'TINY %s %s\n' "$(cut -d' ' -f1 /proc/uptime)" "$*" >/dev/console
}

# tell passes each line that a function prints to say.
tell() {
    "$@" | while IFS= read -r line; do
        case $line in
        USERDATA:*) printf '%s\n' "$line" >/dev/console ;;
        *) say "$line" ;;
        esac
    done
}

# flag and value read the kernel command line: flag a word, value a key with a default.
flag() {
    case " $(cat /proc/cmdline) " in
    *" $1 "*) ;;
    *) false ;;
    esac
}

value() {
    for word in $(cat /proc/cmdline); do
        case $word in
        "$1"=*) echo "${word#*=}" && return ;;
        esac
    done
    echo "$2"
}

# bytes prints the next $1 bytes of its input in hexadecimal.
bytes() {
    dd bs="$1" count=1 2>/dev/null | hexdump -v -e '/1 "%02x"'
}

# seed prints what cloud-init would read from the NoCloud disk: the label CIDATA in upper or lower case, the identity,
# and the user data line by line.
seed() {
    disk=$(findfs LABEL=CIDATA 2>/dev/null || findfs LABEL=cidata 2>/dev/null)
    if [ -z "$disk" ]; then
        echo "nocloud none"
        return
    fi
    mkdir -p /mnt/seed
    if ! mount -o ro "$disk" /mnt/seed 2>/tmp/seed; then
        echo "nocloud device=$disk error=$(cat /tmp/seed)"
        return
    fi
    echo "nocloud device=$disk files=$(list /mnt/seed)" \
        "instance-id=$(meta instance-id) hostname=$(meta local-hostname)"
    sed 's/^/USERDATA: /' /mnt/seed/user-data 2>/dev/null
    umount /mnt/seed
}

# meta prints a top-level key of meta-data, which is YAML or JSON.
meta() {
    sed -n "s/^[{ ]*[\"']\{0,1\}$1[\"']\{0,1\} *: *[\"']\{0,1\}\([^\"',}]*\).*/\1/p" \
        /mnt/seed/meta-data 2>/dev/null | head -n 1
}

list() {
    (cd "$1" 2>/dev/null && echo *) | tr ' ' ','
}

machine() {
    asset=$(tr ' ' '_' </sys/class/dmi/id/chassis_asset_tag 2>/dev/null)
    echo "machine uuid=$(cat /sys/class/dmi/id/product_uuid 2>/dev/null)" \
        "vendor=$(tr ' ' '_' </sys/class/dmi/id/sys_vendor 2>/dev/null)${asset:+ asset=$asset}" \
        "clock=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

firmware() {
    if [ ! -d /sys/firmware/efi ]; then
        echo "firmware efi=0"
        return
    fi
    vars=/sys/firmware/efi/efivars
    mount -t efivarfs efivarfs $vars 2>/dev/null
    secure=$(tail -c 1 $vars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c 2>/dev/null | hexdump -e '/1 "%d"')
    lockdown=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/security/lockdown 2>/dev/null)
    echo "firmware efi=1 secureboot=${secure:-0} lockdown=${lockdown:-none}"
}

# tpm sends TPM2_ReadClock. The answer: tag 2, size 4, code 4, then time 8, clock 8 (ms, survives restarts), resetCount
# 4, restartCount 4, safe 1. It writes the command to a file first, because the device requires a single write, and
# printf writes line by line.
tpm() {
    if [ ! -e /dev/tpm0 ]; then
        echo "tpm none"
        return
    fi
    printf '\200\001\000\000\000\012\000\000\001\201' >/tmp/readclock
    exec 4<>/dev/tpm0
    cat /tmp/readclock >&4
    reply=$(bytes 4096 <&4)
    exec 4>&-
    echo "tpm version=$(cat /sys/class/tpm/tpm*/tpm_version_major)" \
        "code=0x$(echo "$reply" | cut -c13-20)" \
        "clock=$((0x$(echo "$reply" | cut -c37-52)))" \
        "resets=$((0x$(echo "$reply" | cut -c53-60)))" \
        "restarts=$((0x$(echo "$reply" | cut -c61-68)))" \
        "pcr0=$(cat /sys/class/tpm/tpm*/pcr-sha256/0 2>/dev/null)"
}

cpus() {
    cpus=/sys/devices/system/cpu
    echo "cpus count=$(nproc) online=$(cat $cpus/online) present=$(cat $cpus/present) possible=$(cat $cpus/possible)"
}

memory() {
    echo "memory $(awk '/^Mem(Total|Free|Available):/ { printf "%s%s=%skB", gap, tolower(substr($1, 4, length($1) - 4)), $2; gap = " " }' /proc/meminfo)"
}

# serial prints the serial number of a block device. For a SCSI or ATA disk, the number follows four bytes of a page
# (SPC-4, 7.8.18).
serial() {
    cat "$1/serial" 2>/dev/null || tail -c +5 "$1/device/vpd_pg80" 2>/dev/null | tr -cd '[:alnum:]-'
}

blocks() {
    for block in /sys/block/*; do
        [ -e "$block/size" ] || continue
        echo "block ${block##*/} bytes=$(($(cat "$block/size") * 512)) ro=$(cat "$block/ro")" \
            "serial=$(serial "$block")"
    done
}

nets() {
    for card in /sys/class/net/eth*; do
        [ -e "$card" ] || continue
        echo "net ${card##*/} mac=$(cat "$card/address") carrier=$(cat "$card/carrier" 2>/dev/null)" \
            "address=$(ip -4 -o address show dev "${card##*/}" | awk '{ print $4; exit }')"
    done
}

pci() {
    for device in /sys/bus/pci/devices/*; do
        echo "pci ${device##*/} vendor=$(cat "$device/vendor") device=$(cat "$device/device") class=$(cat "$device/class")"
    done
}

# end immediately powers off, reboots or halts the machine.
end() {
    sync
    say "$1"
    "$1" -f
}
