package web

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/text/message"
	"golang.org/x/text/number"

	"vmop/manager/web/fleet"
)

// formatBytes formats a size with a binary unit in the visitor's language, such as 1,5 GiB.
func (w words) formatBytes(n int64) string {
	if n == 0 {
		return "0"
	}
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	unit := 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return message.NewPrinter(w.tag).Sprint(number.Decimal(value, number.MaxFractionDigits(1))) + " " + units[unit]
}

// formatDecimal formats a number with at most two decimals.
func (w words) formatDecimal(n float64) string {
	return message.NewPrinter(w.tag).Sprint(number.Decimal(n, number.MaxFractionDigits(2)))
}

// formatAmount formats an amount as "now / maximum". It returns a single number if both are equal, or if the VM isn't
// running.
func (words) formatAmount(a fleet.Amount) string {
	switch {
	case a.Now == 0 || a.Now == a.Maximum:
		return strconv.FormatInt(max(a.Now, a.Wanted), 10)
	}
	return fmt.Sprintf("%d / %d", a.Now, a.Maximum)
}

// formatMemory is formatAmount for bytes. A line break is possible only after the slash.
func (w words) formatMemory(a fleet.Amount) string {
	switch {
	case a.Now == 0 || a.Now == a.Maximum:
		return w.formatBytes(max(a.Now, a.Wanted))
	}
	return strings.ReplaceAll(w.formatBytes(a.Now)+" /", " ", "\u00a0") + " " +
		strings.ReplaceAll(w.formatBytes(a.Maximum), " ", "\u00a0")
}

// parseBytes parses a size as people type it in either language: 1.5 GiB, 1,5g, 512M. All units are binary. A number
// without a unit is an error.
func parseBytes(text string) (int64, bool) {
	text = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), ",", ".")
	digits := strings.TrimRight(text, "kmgtib ")
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "0123456789.") != "" {
		return 0, false
	}
	unit := strings.TrimSpace(text[len(digits):])
	shift := strings.IndexByte("bkmgt", (unit + " ")[0]) * 10
	if shift <= 0 || !strings.HasPrefix("ib", strings.TrimSuffix(unit[1:], "b")) && unit[1:] != "b" {
		return 0, false
	}
	bytes := value * float64(int64(1)<<shift)
	if bytes > 1<<60 {
		return 0, false
	}
	return int64(bytes), true
}
