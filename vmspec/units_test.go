package vmspec

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"0":                   0,
		"1073741824":          GiB,
		"010":                 10,
		"8Gi":                 8 * GiB,
		"8 GiB":               8 * GiB,
		"8GiB":                8 * GiB,
		" 8\tGiB ":            8 * GiB,
		"8 GB":                8 * GiB,
		"8gb":                 8 * GiB,
		"8G":                  8 * GiB,
		"8g":                  8 * GiB,
		"512m":                512 * MiB,
		"8k":                  8 * KiB,
		"8 KB":                8 * KiB,
		"8 gib":               8 * GiB,
		"2t":                  2048 * GiB,
		"8b":                  8,
		"512 B":               512,
		"1.5Gi":               1536 * MiB,
		"1.5 GB":              1536 * MiB,
		".5Ki":                512,
		"2.Ki":                2048,
		"1e9":                 1e9,
		"1E9":                 1e9,
		"1.5e3":               1500,
		"1E":                  1 << 60,
		"1 EB":                1 << 60,
		"7Ei":                 7 << 60,
		"9223372036854775807": math.MaxInt64,
		"+1Ki":                1024,
	} {
		got, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseBytesSaysWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    `"": must be a size (a number and a unit, such as 8 GiB)`,
		"lots":                `"lots": must be a size (a number and a unit, such as 8 GiB)`,
		"GiB":                 `"GiB": must be a size (a number and a unit, such as 8 GiB)`,
		"1.2.3":               `"1.2.3": must be a size (a number and a unit, such as 8 GiB)`,
		"0x10":                `"0x10": unknown unit "x10" (units are B, KiB, MiB, GiB, TiB …)`,
		"8 iB":                `"8 iB": unknown unit "iB" (units are B, KiB, MiB, GiB, TiB …)`,
		"8 Gib of it":         `"8 Gib of it": unknown unit "Gib of it" (units are B, KiB, MiB, GiB, TiB …)`,
		"-1":                  `"-1": must not be negative`,
		"0.1":                 `"0.1": is not a whole number of bytes (0 or 1 bytes are)`,
		"1.0001 KiB":          `"1.0001 KiB": is not a whole number of bytes (1024 or 1025 bytes are)`,
		"1e-1":                `"1e-1": is not a whole number of bytes (0 or 1 bytes are)`,
		"8Ei":                 `"8Ei": is more than can be counted (the maximum is 9223372036854775807 bytes, just below 8 EiB)`,
		"9223372036854775808": `"9223372036854775808": is more than can be counted (the maximum is 9223372036854775807 bytes, just below 8 EiB)`,
		"1e64":                `"1e64": is more than can be counted (the maximum is 9223372036854775807 bytes, just below 8 EiB)`,
		"1e999999999":         `"1e999999999": has an exponent out of range (-64 to 64)`,
		strings.Repeat("1", 70): `"` + strings.Repeat("1", 70) +
			`": is too long for a size (a number and a unit, such as 8 GiB)`,
	} {
		_, err := ParseBytes(text)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*SizeError))
	}
}

// Rates have decimal units.
func TestDecimalUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Bytes{
		"8 GB": 8e9, "8G": 8e9, "8k": 8000, "8 GiB": 8 * GiB, "1.5 GB": 1500 * 1000 * 1000, "1E": 1e18, "1e3": 1000,
	} {
		got, err := ParseDecimal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"8 gb": `"8 gb": unknown unit "gb" (did you mean GB?)`, "8 KB": `"8 KB": unknown unit "KB" (did you mean kB?)`,
	} {
		_, err := ParseDecimal(text)
		require.EqualError(t, err, want)
	}
	require.Equal(t, "8 GB", Bytes(8e9).Decimal())
	require.Equal(t, "8 GiB", (8 * GiB).Decimal())
}

func TestBytesAreShownInTheLargestExactUnit(t *testing.T) {
	t.Parallel()
	for size, want := range map[Bytes]string{
		0:             "0 B",
		1:             "1 B",
		1001:          "1001 B",
		1023:          "1023 B",
		1024:          "1 KiB",
		1000:          "1000 B",
		1e9:           "1000000000 B",
		8e9:           "7812500 KiB",
		1536 * MiB:    "1536 MiB",
		8 * GiB:       "8 GiB",
		7 << 60:       "7 EiB",
		-GiB:          "-1 GiB",
		math.MaxInt64: "9223372036854775807 B",
	} {
		require.Equal(t, want, size.String())
	}
}

// FuzzParseBytes checks that parsing agrees with a reader based only on the documented grammar, and that the value can
// be written and read back.
func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{
		"8Gi", "8 GiB", "8 GB", "1.5e3", "1E", "1E1", "1e+2", "100m", "-1", ".", "+.5Ki", "1e-99", "0x10", "1_000",
		"1e64", "0e64", "-0", "9223372036854775807",
		"9223372036854775808", "8EiB", "7.99999999999999999999 EiB", "1/2", "1 2", "1.", "1..2", "--1", "1e",
		"\t1 kB\n", "1\u00a0kB", "0.0000000000000000001EB",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseBytes(text)
		want, ok := readSize(text)
		if err != nil {
			require.ErrorAs(t, err, new(*SizeError))
			require.False(t, ok, "%q is %d bytes", text, want)
			return
		}
		require.True(t, ok, "%q is no size", text)
		require.Equal(t, want, size)
		again, err := ParseBytes(size.String())
		require.NoError(t, err)
		require.Equal(t, size, again)
	})
}

var sizeGrammar = regexp.MustCompile(`^[+-]?([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+)|[ \t]*(|[bB]|()([kKmMgGtTpPeE])[iI]?[bB]?))$`)

// readSize reads a size by moving the point of a decimal number. It divides only by powers of ten, as the last step.
func readSize(text string) (Bytes, bool) {
	m := sizeGrammar.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || m[1]+m[2] == "" || len(m[0]) > 64 {
		return 0, false
	}
	number, _ := new(big.Int).SetString("0"+m[1]+m[2], 10)
	down := int64(len(m[2])) // the power of ten to divide by
	if m[3] != "" {
		exponent, err := strconv.ParseInt(m[3], 10, 32)
		if err != nil || exponent < -64 || exponent > 64 {
			return 0, false
		}
		down -= exponent
	}
	for i, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		if m[5] == prefix {
			down -= 3 * int64(i+1)
		}
		if strings.EqualFold(m[6], prefix) {
			number.Lsh(number, uint(10*(i+1)))
		}
	}
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(down, -down)), nil)
	if down <= 0 {
		number.Mul(number, ten)
	} else if _, rest := number.QuoRem(number, ten, new(big.Int)); rest.Sign() != 0 {
		return 0, false
	}
	negative := m[0][0] == '-'
	return Bytes(number.Int64()), number.IsInt64() && !(negative && number.Sign() > 0)
}
