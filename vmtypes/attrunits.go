package vmtypes

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
)

// isNumber reports whether the module sees an integer.
func (a *Attr) isNumber() bool {
	return slices.Contains([]string{attrInt, attrSize, attrDuration, attrPercent, attrRate}, a.Type)
}

// Number returns a number in the notation of a configuration, with its unit: "8", "8 GiB", "1h30m", "50%", "10 MiB/s".
func (a *Attr) Number(n int64) string {
	switch a.Type {
	case attrSize:
		return vmspec.Bytes(n).String()
	case attrDuration:
		return formatDuration(n)
	case attrPercent:
		return strconv.FormatInt(n, 10) + "%"
	case attrRate:
		return vmspec.Bytes(n).Decimal() + "/s"
	}
	return strconv.FormatInt(n, 10)
}

// durationUnit is a unit of durations, in seconds.
type durationUnit struct {
	name    string
	seconds int64
}

// durationUnits returns the units of durations, the largest first.
func durationUnits() []durationUnit {
	return []durationUnit{{"d", 24 * 60 * 60}, {"h", 60 * 60}, {"m", 60}, {"s", 1}}
}

// formatDuration returns a number of seconds as text: "1h30m".
func formatDuration(n int64) string {
	if n == 0 {
		return "0s"
	}
	text := ""
	for _, u := range durationUnits() {
		if n >= u.seconds {
			text += strconv.FormatInt(n/u.seconds, 10) + u.name
			n %= u.seconds
		}
	}
	return text
}

const (
	durationExample = "a number and a unit, such as 90s, 5m or 1h30m"
	percentExample  = "such as 50%"
	rateExample     = "such as 10 MiB/s or 100 Mbit/s"
)

// numberText returns a given number as text; false if it is something else.
func numberText(given any) (text string, ok bool) {
	switch n := given.(type) {
	case string:
		return strings.TrimSpace(n), true
	case int, int64, float64:
		return fmt.Sprint(n), true
	}
	return "", false
}

// readDuration accepts numbers with units, the largest first. A number without a unit is a number of seconds.
func readDuration(given any) (value any, message, hint string) {
	text, ok := numberText(given)
	if !ok {
		return nil, "must be a duration, not " + describeValue(given), durationExample
	}
	rest, seconds, units := text, new(big.Rat), durationUnits()
	for rest != "" {
		after := strings.TrimLeft(rest, ".0123456789")
		number, ok := new(big.Rat).SetString(rest[:len(rest)-len(after)])
		after = strings.TrimLeft(after, " ")
		name := after[:len(after)-len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
		if name == "" && rest == text && after == "" {
			name = "s"
		}
		at := slices.IndexFunc(units, func(u durationUnit) bool { return u.name == name })
		if !ok || at < 0 {
			return nil, strconv.Quote(clipWord(text)) + " is not a duration", durationHint(name)
		}
		seconds.Add(seconds, number.Mul(number, new(big.Rat).SetInt64(units[at].seconds)))
		units = units[at+1:]
		rest = strings.TrimLeft(strings.TrimPrefix(after, name), " ")
	}
	switch {
	case text == "":
		return nil, "must be a duration", durationExample
	case !seconds.IsInt():
		return nil, strconv.Quote(clipWord(text)) + " is not a whole number of seconds", ""
	case seconds.Num().BitLen() > 62:
		return nil, strconv.Quote(clipWord(text)) + " is too long", ""
	}
	return seconds.Num().Int64(), "", ""
}

// durationHint explains a unit that is unknown, or in the wrong place.
func durationHint(name string) string {
	if near := map[string]string{
		"sec": "s", "secs": "s", "seconds": "s", "S": "s", "min": "m", "mins": "m", "minutes": "m", "M": "m",
		"hours": "h", "hour": "h", "H": "h", "days": "d", "day": "d", "D": "d",
	}[name]; near != "" {
		return "did you mean " + near + "?"
	}
	return durationExample
}

// readPercent accepts whole numbers, with or without a percent sign.
func readPercent(given any) (value any, message, hint string) {
	text, ok := numberText(given)
	if !ok {
		return nil, "must be a percentage, not " + describeValue(given), percentExample
	}
	number := strings.TrimSpace(strings.TrimSuffix(text, "%"))
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && strconv.FormatInt(n, 10) == number {
		return n, "", ""
	}
	return nil, strconv.Quote(clipWord(text)) + " is not a whole number of percent", percentExample
}

// readRate accepts sizes and numbers of bits with "/s". A number without a unit is a number of bytes per second.
func readRate(given any) (value any, message, hint string) {
	text, ok := numberText(given)
	if !ok {
		return nil, "must be a rate, not " + describeValue(given), rateExample
	}
	size, perSecond := strings.CutSuffix(text, "/s")
	size = strings.TrimSpace(size)
	number, bits := strings.CutSuffix(size, "bit")
	quoted := strconv.Quote(clipWord(text))
	switch last := strings.TrimLeft(size, "+-.0123456789"); {
	case !perSecond && last != "":
		return nil, quoted + " has no unit of time", rateHint(text)
	case bits: // a size in units of bits
		size = number
	}
	n, err := vmspec.ParseDecimal(size)
	var wrong *vmspec.SizeError
	switch {
	case errors.As(err, &wrong):
		return nil, quoted + ": " + wrong.Message, rateExample
	case err != nil:
		return nil, err.Error(), rateExample
	case bits && n%8 != 0:
		return nil, quoted + " is not a whole number of bytes per second", "8 bit/s are one byte per second"
	case bits:
		n /= 8
	}
	return int64(n), "", ""
}

// rateHint suggests a rate for a size, and for a common abbreviation.
func rateHint(text string) string {
	if bits, is := strings.CutSuffix(text, "bps"); is {
		return "did you mean " + bits + "bit/s?"
	}
	if _, err := vmspec.ParseDecimal(text); err == nil {
		return "did you mean " + text + "/s?"
	}
	return rateExample
}
