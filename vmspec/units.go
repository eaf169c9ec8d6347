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

// The units in which sizes of memory are counted.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// Seconds is a duration in whole seconds.
type Seconds int64

// A SizeError says why a text is no size, and what would be right.
type SizeError struct {
	Size    string // as it was written
	Message string
	Hint    string // what would be right; may be empty
}

// Error returns size, message and hint on one line.
func (e *SizeError) Error() string {
	text := strconv.Quote(e.Size) + ": " + e.Message
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// longestSize bounds what ParseBytes looks at: the largest size has 19 digits.
const longestSize = 64

// ParseBytes reads a size: a number, which may have a fraction, and a unit.
//
// It understands the units of two grammars, both case-sensitive. With or
// without a blank before them: B, kB, MB, GB, TB, PB, EB (powers of 1000) and
// KiB, MiB, GiB, TiB, PiB, EiB (powers of 1024). And those of Kubernetes
// (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/):
// k, M, G, T, P, E and Ki, Mi, Gi, Ti, Pi, Ei, or a decimal exponent as in 1e9.
// A number alone counts bytes.
//
// The result is exact. What is not a whole number of bytes, less than zero or
// above 2^63-1 is an error of type *SizeError.
func ParseBytes(s string) (Bytes, error) {
	text := strings.TrimSpace(s)
	refuse := func(message, hint string) (Bytes, error) {
		return 0, &SizeError{Size: clip(s), Message: message, Hint: hint}
	}
	if text == "" {
		return refuse("is no size", "a number and a unit, such as 8 GiB")
	}
	if len(text) > longestSize {
		return refuse("is too long for a size", "a number and a unit, such as 8 GiB")
	}
	number, exponent, unit := splitSize(text)
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return refuse("is no size", "a number and a unit, such as 8 GiB")
	}
	if value.Sign() < 0 {
		return refuse("is less than nothing", "")
	}
	factor, ok := scale(exponent, unit)
	if !ok {
		if exponent != "" {
			return refuse("has an exponent out of range", "-64 to 64")
		}
		return refuse("unknown unit "+strconv.Quote(unit), suggestUnit(unit))
	}
	value.Mul(value, factor)
	if !value.IsInt() {
		below := new(big.Int).Quo(value.Num(), value.Denom())
		return refuse("is not a whole number of bytes",
			fmt.Sprintf("%s or %s bytes are", below, new(big.Int).Add(below, big.NewInt(1))))
	}
	if !value.Num().IsInt64() {
		return refuse("is more than can be counted", "the most is "+strconv.FormatInt(math.MaxInt64, 10)+
			" bytes, just below 8 EiB")
	}
	return Bytes(value.Num().Int64()), nil
}

// splitSize cuts "1.5 GiB" into number and unit, "1e9" into number and exponent.
func splitSize(s string) (number, exponent, unit string) {
	rest := strings.TrimLeft(s, "+-.0123456789")
	number = s[:len(s)-len(rest)]
	if len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') && strings.Trim(rest[1:], "+-0123456789") == "" {
		return number, rest[1:], ""
	}
	return number, "", strings.TrimLeft(rest, " \t")
}

// scale returns what the number before it is multiplied with.
func scale(exponent, unit string) (*big.Rat, bool) {
	if exponent != "" {
		n, err := strconv.Atoi(exponent)
		if err != nil || n < -longestSize || n > longestSize {
			return nil, false
		}
		factor := new(big.Rat).SetInt(power(10, max(n, -n)))
		if n < 0 {
			factor.Inv(factor)
		}
		return factor, true
	}
	for _, u := range units() {
		if unit == u.name {
			return new(big.Rat).SetInt(power(u.base, u.exponent)), true
		}
	}
	return nil, false
}

func power(base int64, exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil)
}

type unit struct {
	name     string
	base     int64
	exponent int
}

// units returns all units, the spelling with B first.
func units() []unit {
	all := []unit{{"B", 1, 1}, {"", 1, 1}}
	for i, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		binary := strings.ToUpper(prefix) + "i"
		all = append(all,
			unit{binary + "B", 1024, i + 1}, unit{prefix + "B", 1000, i + 1},
			unit{binary, 1024, i + 1}, unit{prefix, 1000, i + 1})
	}
	return all
}

// suggestUnit says which unit may have been meant.
func suggestUnit(written string) string {
	if written == "m" {
		return "m is a thousandth in Kubernetes; did you mean M or Mi?"
	}
	for _, u := range units() {
		if u.name != "" && strings.EqualFold(u.name, written) {
			return "did you mean " + u.name + "?"
		}
	}
	return "units are B, kB, MB, GB, TB … and KiB, MiB, GiB, TiB …"
}

// String returns the size in the largest unit in which it is a whole number:
// "8 GiB", "8 GB", "1536 MiB", "1001 B". ParseBytes reads the same size back.
func (b Bytes) String() string {
	factor, name := Bytes(1), "B"
	binary, decimal := Bytes(1), Bytes(1)
	for _, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		binary, decimal = binary*1024, decimal*1000
		if b != 0 && b%decimal == 0 {
			factor, name = decimal, prefix+"B"
		}
		if b != 0 && b%binary == 0 {
			factor, name = binary, strings.ToUpper(prefix)+"iB"
		}
	}
	return strconv.FormatInt(int64(b/factor), 10) + " " + name
}

// ParseScalar sets the size from the text of a value; see ParseBytes. It serves
// readers of files: an error is what is wrong and perhaps what would be right.
func (b *Bytes) ParseScalar(text string) (message, hint string) {
	size, err := ParseBytes(text)
	var wrong *SizeError
	if errors.As(err, &wrong) {
		return strconv.Quote(wrong.Size) + ": " + wrong.Message, wrong.Hint
	}
	*b = size
	return "", ""
}

// Wanted names what a reader of a file expects, and what to write.
func (b Bytes) Wanted() (what, hint string) { return "a size", "a number and a unit, such as 8 GiB" }

// Largest returns the most seconds that a reader of a file takes, and what to write.
func (Seconds) Largest() (number int64, hint string) {
	return math.MaxInt32, "a number of seconds, such as 900"
}

// clip shortens what is quoted in a message.
func clip(s string) string {
	if len(s) <= 2*longestSize {
		return s
	}
	return strings.ToValidUTF8(s[:2*longestSize], "") + "…"
}
