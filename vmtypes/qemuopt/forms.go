package qemuopt

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A Form is the form that QEMU requires for the text of a property.
type Form int

// The forms.
const (
	AnyText    Form = iota
	Size            // a number of bytes, with an optional suffix
	Switch          // on or off
	Integer         // a whole number
	MACAddress      // six bytes with colons
)

// A Rule is the form of one or more properties.
type Rule struct {
	// Flag and Backend select options, as in Option. An empty Backend matches any backend.
	Flag, Backend string
	// Names contains one or more names of properties, separated by blanks.
	Names string
	Form  Form
	// Min and Max are the limits of an Integer.
	Min, Max int64
}

// rules are searched in order; the first matching row counts. They are from the types in QEMU's -device help, from the
// tables of options (softmmu/vl.c, chardev/char.c), and from the QAPI schema.
var rules = []Rule{
	{Flag: "-m", Names: "size maxmem", Form: Size},
	{Flag: "-m", Names: "slots", Form: Integer, Max: math.MaxInt32},
	{Flag: "-smp", Names: "cpus maxcpus sockets dies clusters cores threads", Form: Integer, Max: math.MaxInt32},
	{Flag: "-object", Backend: "memory-backend-*", Names: "size align", Form: Size},
	{Flag: "-object", Backend: "memory-backend-*", Names: "dump merge prealloc reserve share", Form: Switch},
	{Flag: "-blockdev", Names: "read-only cache.direct cache.no-flush auto-read-only force-share", Form: Switch},
	{Flag: "-blockdev", Backend: "null-co", Names: "size", Form: Size},
	{Flag: "-blockdev", Backend: "raw", Names: "size offset", Form: Size},
	{Flag: "-blockdev", Backend: "qcow2", Names: "cache-size l2-cache-size refcount-cache-size", Form: Size},
	{Flag: "-chardev", Backend: "socket", Names: "server wait nodelay telnet abstract tight logappend", Form: Switch},
	{Flag: "-device", Backend: "virtio-mem-pci", Names: "requested-size block-size", Form: Size},
	{Flag: "-device", Names: "mac", Form: MACAddress},
	{Flag: "-device", Names: "multifunction", Form: Switch},
	{Flag: "-device", Names: "bootindex", Form: Integer, Min: math.MinInt32, Max: math.MaxInt32},
	{Flag: "-device", Backend: "virtserialport", Names: "nr", Form: Integer, Max: math.MaxUint32},
	{Flag: "-device", Backend: "pcie-root-port", Names: "chassis", Form: Integer, Max: math.MaxUint8},
	{Flag: "-device", Backend: "pcie-root-port", Names: "slot", Form: Integer, Max: math.MaxUint16},
	{Flag: "-device", Backend: "scsi-*", Names: "channel scsi-id lun", Form: Integer, Max: math.MaxUint32},
	{Flag: "-device", Backend: "ide-*", Names: "unit", Form: Integer, Max: math.MaxUint32},
}

// RuleOf returns the rule of a property of an option; its form is AnyText if there is none.
func RuleOf(flag, backend, property string) Rule {
	for _, r := range rulesByProperty[property] {
		if r.Flag == flag && (r.Backend == "" || matchesName(r.Backend, backend)) {
			return *r
		}
	}
	return Rule{}
}

// rulesByProperty contains the rows of rules by the name of the property.
var rulesByProperty = indexRules()

func indexRules() map[string][]*Rule {
	rows := make(map[string][]*Rule, 64)
	for i := range rules {
		for _, name := range strings.Fields(rules[i].Names) {
			rows[name] = append(rows[name], &rules[i])
		}
	}
	return rows
}

// Accepts returns the reason why QEMU rejects a text, or "".
func (r Rule) Accepts(text string) string {
	switch r.Form {
	case Size:
		if _, ok := Bytes(text); !ok {
			return "must be a number of bytes below 2^64, with an optional suffix k, M, G or T and no blank: 512M"
		}
	case Switch:
		if _, known := Bool(text); !known {
			return "must be on or off"
		}
	case Integer:
		if n, ok := Number(text); !ok || n < r.Min || n > r.Max {
			return fmt.Sprintf("must be a whole number, %d to %d", r.Min, r.Max)
		}
	case MACAddress:
		if !isMAC(text) {
			return "must be six bytes in hexadecimal with colons: 52:54:00:12:34:56"
		}
	}
	return ""
}

// Number returns QEMU's interpretation of a text as a whole number (util/cutils.c, qemu_strtoi64 with the base 0). ok
// reports whether the text is a number; QEMU rejects other texts.
func Number(text string) (n int64, ok bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t\n\v\f\r"), "+")
	if strings.Contains(text, "_") { // a separator in Go, but not in C
		return 0, false
	}
	n, err := strconv.ParseInt(text, 0, 64)
	return n, err == nil
}

// sizeSuffixes are the suffixes of sizes, for 1024 to the power of their position.
const sizeSuffixes = "BKMGTPE"

// Bytes returns QEMU's interpretation of a text as a size (util/cutils.c, qemu_strtosz). ok reports whether the text is
// a size below 2^64; QEMU rejects other texts.
func Bytes(text string) (n uint64, ok bool) {
	text = strings.TrimPrefix(strings.TrimLeft(text, " \t\n\v\f\r"), "+")
	shift := uint(0)
	if last := len(text) - 1; last > 0 {
		power := strings.IndexByte(sizeSuffixes, text[last]&^0x20)
		isDigit := len(text) > 1 && text[1]|0x20 == 'x' && strings.IndexByte("BE", text[last]&^0x20) >= 0
		if power >= 0 && !isDigit {
			text, shift = text[:last], 10*uint(power)
		}
	}
	if n, err := strconv.ParseUint(text, 0, 64); err == nil && !strings.Contains(text, "_") {
		return n << shift, n<<shift>>shift == n
	}
	if strings.Trim(text, "0123456789.") != "" || text == "." {
		return 0, false
	}
	fraction, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	fraction.Mul(fraction, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), shift)))
	whole := new(big.Int).Quo(fraction.Num(), fraction.Denom())
	return whole.Uint64(), whole.IsUint64()
}

// isMAC reports whether a text is a hardware address as QEMU reads it (hw/core/qdev-properties-system.c, set_mac).
func isMAC(text string) bool {
	if len(text) != len("52:54:00:12:34:56") {
		return false
	}
	for i := range len(text) {
		allowed := "0123456789abcdefABCDEF"
		if i%3 == 2 {
			allowed = ":-"
		}
		if strings.IndexByte(allowed, text[i]) < 0 {
			return false
		}
	}
	return true
}
