package vmspec

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strconv"
	"strings"
)

// MAC returns the default hardware address of a VM's network interface, counted from 0. It is always the same for
// the same uuid and index. It is unicast and locally administered (IEEE 802), so it cannot conflict with the
// address of a manufacturer.
func MAC(uuid string, index int) string {
	sum := seededDigest("mac", uuid, index)
	address := net.HardwareAddr(sum[:6])
	address[0] = address[0]&^1 | 2
	return address.String()
}

// Ifname returns the default name on the host for the tap of a VM's network interface, counted from 0: "vm", nine
// hexadecimal digits that identify the VM, "n" and the index. Up to index 999 it fits into the 15 characters of
// an interface name on Linux (IFNAMSIZ).
func Ifname(uuid string, index int) string {
	sum := seededDigest("ifname", uuid, 0)
	return "vm" + hex.EncodeToString(sum[:5])[:9] + "n" + strconv.Itoa(index)
}

// PluggedIfname returns the default name on the host for the tap of a network card that was plugged in while the VM
// was running: "vmc" and twelve hexadecimal digits. It depends on the card's hardware address instead of its
// position, because the position changes when other cards are unplugged.
func PluggedIfname(uuid, mac string) string {
	sum := sha256.Sum256([]byte("card " + strings.ToLower(uuid+" "+mac)))
	return "vmc" + hex.EncodeToString(sum[:6])
}

func seededDigest(purpose, uuid string, index int) [sha256.Size]byte {
	return sha256.Sum256([]byte(purpose + " " + strings.ToLower(uuid) + " " + strconv.Itoa(index)))
}

// ValidUUID reports whether s is a uuid in its usual form: 32 hexadecimal digits
// in groups of 8, 4, 4, 4 and 12 (RFC 9562).
func ValidUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range s {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !strings.ContainsRune("0123456789abcdefABCDEF", c) {
				return false
			}
		}
	}
	return true
}
