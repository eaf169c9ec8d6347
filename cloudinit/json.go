package cloudinit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// FromJSON returns a configuration from JSON values, as in a Kubernetes resource; nil is a missing key. Strings
// stay strings, and numbers keep their notation.
func FromJSON(metaData, userData, networkConfig, vendorData []byte) (*Config, error) {
	var c Config
	for _, part := range []struct {
		key  string
		json []byte
		to   *yaml.Node
	}{
		{"metaData", metaData, &c.MetaData},
		{"userData", userData, &c.UserData},
		{"networkConfig", networkConfig, &c.NetworkConfig},
		{"vendorData", vendorData, &c.VendorData},
	} {
		if part.json == nil {
			continue
		}
		value, err := decodeJSON(part.json)
		if err == nil {
			err = part.to.Encode(value)
		}
		if err != nil {
			return nil, fmt.Errorf("read cloudInit.%s: %w", part.key, err)
		}
	}
	return &c, nil
}

func decodeJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return withNumbers(value), nil
}

// withNumbers converts the numbers in a JSON value to YAML that every reader reads as numbers: YAML 1.1 requires
// a point before an exponent, and a sign in it.
func withNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			v[key] = withNumbers(element)
		}
	case []any:
		for i, element := range v {
			v[i] = withNumbers(element)
		}
	case string:
		if v == "<<" { // otherwise the encoder would write a merge key
			return &yaml.Node{Kind: yaml.ScalarNode, Value: v, Style: yaml.DoubleQuotedStyle}
		}
	case json.Number:
		text := strings.ToLower(v.String())
		if mantissa, exponent, scaled := strings.Cut(text, "e"); scaled {
			if !strings.Contains(mantissa, ".") {
				mantissa += ".0"
			}
			if !strings.ContainsAny(exponent, "+-") {
				exponent = "+" + exponent
			}
			text = mantissa + "e" + exponent
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	}
	return value
}
