package vmspec

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Bytes is a size in bytes.
type Bytes int64

// Binary units of sizes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// Seconds is a duration in whole seconds.
type Seconds int64

// A SizeError means that a text is not a valid size.
type SizeError struct {
	Size    string // the original text
	Message string
	Hint    string // the correct form; may be empty
}

// Error returns size, message and hint on one line.
func (e *SizeError) Error() string {
	text := strconv.Quote(e.Size) + ": " + e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// longestSize is the maximum length of a text for ParseBytes: the largest size has 19 digits.
const longestSize = 64

// ParseBytes reads a size of memory or a disk: a number, which may have a fraction, and a unit.
//
// The units are B, and K, M, G, T, P and E in any case, which are powers of 1024, optionally with "B" or "iB". There
// may be a blank before the unit. A number may have a decimal exponent instead, as in 1e9. A number without a unit is
// a number of bytes.
//
// The result is exact. If the size is not a whole number of bytes, is negative, or is greater than 2^63-1, the
// error has the type *SizeError.
func ParseBytes(s string) (Bytes, error) { return parseUnits(s, binaryScale) }

// ParseDecimal reads a number of bytes with units for rates: B, kB, MB, GB, TB, PB and EB are powers of 1000, and
// KiB, MiB, GiB, TiB, PiB and EiB are powers of 1024. The B is optional. The units are case-sensitive; otherwise it
// is like [ParseBytes].
func ParseDecimal(s string) (Bytes, error) { return parseUnits(s, decimalScale) }

func parseUnits(s string, scaleOf func(unit string) (*big.Rat, bool)) (Bytes, error) {
	text := strings.TrimSpace(s)
	refuse := func(message, hint string) (Bytes, error) {
		return 0, &SizeError{Size: clipQuoted(s), Message: message, Hint: hint}
	}
	if text == "" {
		return refuse("must be a size", "a number and a unit, such as 8 GiB")
	}
	if len(text) > longestSize {
		return refuse("is too long for a size", "a number and a unit, such as 8 GiB")
	}
	number, exponent, unit := splitSize(text)
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return refuse("must be a size", "a number and a unit, such as 8 GiB")
	}
	if value.Sign() < 0 {
		return refuse("must not be negative", "")
	}
	factor, ok := scaleOf(unit)
	if exponent != "" {
		if factor, ok = scaleOfExponent(exponent); !ok {
			return refuse("has an exponent out of range", "-64 to 64")
		}
	}
	if !ok {
		return refuse("unknown unit "+strconv.Quote(unit), suggestUnit(unit))
	}
	value.Mul(value, factor)
	if !value.IsInt() {
		below := new(big.Int).Quo(value.Num(), value.Denom())
		return refuse("is not a whole number of bytes",
			fmt.Sprintf("%s or %s bytes are", below, new(big.Int).Add(below, big.NewInt(1))))
	}
	if !value.Num().IsInt64() {
		return refuse("is more than can be counted", "the maximum is "+strconv.FormatInt(math.MaxInt64, 10)+
			" bytes, just below 8 EiB")
	}
	return Bytes(value.Num().Int64()), nil
}

// splitSize splits "1.5 GiB" into number and unit, and "1e9" into number and exponent.
func splitSize(s string) (number, exponent, unit string) {
	rest := strings.TrimLeft(s, "+-.0123456789")
	number = s[:len(s)-len(rest)]
	if len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') && strings.Trim(rest[1:], "+-0123456789") == "" {
		return number, rest[1:], ""
	}
	return number, "", strings.TrimLeft(rest, " \t")
}

// scaleOfExponent returns the factor for a decimal exponent.
func scaleOfExponent(exponent string) (*big.Rat, bool) {
	n, err := strconv.Atoi(exponent)
	if err != nil || n < -longestSize || n > longestSize {
		return nil, false
	}
	factor := new(big.Rat).SetInt(powerOf(10, max(n, -n)))
	if n < 0 {
		factor.Inv(factor)
	}
	return factor, true
}

// binaryScale returns the factor for a unit of ParseBytes.
func binaryScale(unit string) (*big.Rat, bool) {
	prefix := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(unit), "B"), "I")
	power := strings.Index(" KMGTPE", prefix)
	switch {
	case strings.EqualFold(unit, "iB") || strings.EqualFold(unit, "i") || len(prefix) > 1 || power < 0:
		return nil, false
	case prefix == "":
		power = 0
	}
	return new(big.Rat).SetInt(powerOf(1024, power)), true
}

// decimalScale returns the factor for a unit of ParseDecimal.
func decimalScale(unit string) (*big.Rat, bool) {
	for _, u := range allUnits() {
		if unit == u.name {
			return new(big.Rat).SetInt(powerOf(u.base, u.exponent)), true
		}
	}
	return nil, false
}

func powerOf(base int64, exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil)
}

type unit struct {
	name     string
	base     int64
	exponent int
}

// allUnits returns the units of ParseDecimal, with the spelling with B first.
func allUnits() []unit {
	all := []unit{{"B", 1, 1}, {"", 1, 1}}
	for i, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		binary := strings.ToUpper(prefix) + "i"
		all = append(all,
			unit{binary + "B", 1024, i + 1}, unit{prefix + "B", 1000, i + 1},
			unit{binary, 1024, i + 1}, unit{prefix, 1000, i + 1})
	}
	return all
}

// suggestUnit suggests the unit that was probably meant.
func suggestUnit(written string) string {
	for _, u := range allUnits() {
		if u.name != "" && strings.EqualFold(u.name, written) {
			return "did you mean " + u.name + "?"
		}
	}
	return "units are B, KiB, MiB, GiB, TiB …"
}

// String returns the size in the largest unit that results in a whole number: "8 GiB", "1536 MiB", "1001 B".
// ParseBytes reads it back as the same size.
func (b Bytes) String() string { return b.format(false) }

// Decimal is String with units of ParseDecimal, which reads it back: "8 GB", "8 GiB".
func (b Bytes) Decimal() string { return b.format(true) }

func (b Bytes) format(decimals bool) string {
	factor, name := Bytes(1), "B"
	binary, decimal := Bytes(1), Bytes(1)
	for _, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		binary, decimal = binary*1024, decimal*1000
		if decimals && b != 0 && b%decimal == 0 {
			factor, name = decimal, prefix+"B"
		}
		if b != 0 && b%binary == 0 {
			factor, name = binary, strings.ToUpper(prefix)+"iB"
		}
	}
	return strconv.FormatInt(int64(b/factor), 10) + " " + name
}

// ParseScalar sets the size from the text of a value; see ParseBytes. It is for readers of files: if the text is
// invalid, it returns a message and possibly a hint.
func (b *Bytes) ParseScalar(text string) (message, hint string) {
	size, err := ParseBytes(text)
	var wrong *SizeError
	if errors.As(err, &wrong) {
		return strconv.Quote(wrong.Size) + ": " + wrong.Message, wrong.Hint
	}
	*b = size
	return "", ""
}

// Wanted returns a description of the expected value for a reader of a file, and a hint.
func (b Bytes) Wanted() (what, hint string) { return "a size", "a number and a unit, such as 8 GiB" }

// Largest returns the maximum number of seconds for a reader of a file, and a hint.
func (Seconds) Largest() (number int64, hint string) {
	return math.MaxInt32, "a number of seconds, such as 900"
}

// clipQuoted shortens a quotation in a message.
func clipQuoted(s string) string {
	if len(s) <= 2*longestSize {
		return s
	}
	return strings.ToValidUTF8(s[:2*longestSize], "") + "…"
}

// WholeMiB rounds down to whole MiB, because QEMU counts memory in MiB.
func (b Bytes) WholeMiB() Bytes { return b / MiB * MiB }
