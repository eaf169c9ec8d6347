package vmspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][3]string{
		"https://h/a.iso":             {"https://h/a.iso", "", ""},
		"https://me:pw@h:8/a?b=c@d":   {"https://h:8/a?b=c@d", "me", "pw"},
		"http://me@h":                 {"http://h", "me", ""},
		"http://m%40e:a%3Ab:c@h/x":    {"http://h/x", "m@e", "a:b:c"},
		"http://u:a%zz@h/x":           {"http://h/x", "u", "a%zz"},
		"http://u:p@q@h/x":            {"http://h/x", "u", "p@q"},
		"https://h/x@y":               {"https://h/x@y", "", ""},
		"/a:b@c.iso":                  {"/a:b@c.iso", "", ""},
		"ftp://me:pw@h/a":             {"ftp://me:pw@h/a", "", ""},
		"http://:pw@h?x":              {"http://h?x", "", "pw"},
		"https://me:pw@[fe80::1]:8/a": {"https://[fe80::1]:8/a", "me", "pw"},
	} {
		bare, user, password := Credentials(file)
		require.Equal(t, want, [3]string{bare, user, password}, file)
	}
}
