package cloudinit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFromJSON(t *testing.T) {
	t.Parallel()
	c, err := FromJSON([]byte(`{"instance-id":"007"}`),
		[]byte(`{"a":1,"b":1.5,"c":1E5,"d":12345678901234567890,"e":-0.25e-3,"f":"1","g":"on","h":"0644","i":null,"j":true,"k":"two\nlines\n","l":[{"m":{}}],"n":"12:30:45","o":"<<","1":"key"}`),
		nil, []byte(`"#!/bin/sh\necho vendor\n"`))
	require.NoError(t, err)
	seed, err := c.Seed("vm1")
	require.NoError(t, err)
	require.Equal(t, "instance-id: \"007\"\nlocal-hostname: \"vm1\"\n", string(seed.MetaData))
	require.Equal(t, `#cloud-config
"1": key
a: 1
b: 1.5
c: 1.0e+5
d: 12345678901234567890
e: -0.25e-3
f: "1"
g: "on"
h: "0644"
i: null
j: true
k: |
  two
  lines
l:
  - m: {}
"n": "12:30:45"
o: "<<"
`, string(seed.UserData))
	require.Nil(t, seed.NetworkConfig)
	require.Equal(t, "#!/bin/sh\necho vendor\n", string(seed.VendorData))
}

func TestFromJSONRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:    "read cloudInit.userData: unexpected EOF",
		`{} 1`: "read cloudInit.userData: more than one JSON value",
		``:     "read cloudInit.userData: EOF",
	} {
		_, err := FromJSON(nil, []byte(text), nil, nil)
		require.EqualError(t, err, want, text)
	}
}
