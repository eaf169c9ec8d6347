package plan

import (
	"encoding/json"
	"fmt"
)

// JSON returns the plan for programs, indented. It is complete: json.Unmarshal returns the same plan.
func (p *Plan) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return append(b, '\n'), nil
}

// optionJSON is the JSON form of an option. Words is redundant. It is for programs that only show the option;
// descriptors appear in it by name.
type optionJSON struct {
	Words      []string       `json:"words"`
	Flag       string         `json:"flag"`
	Value      string         `json:"value,omitempty"`
	List       bool           `json:"list,omitempty"`
	Properties []propertyJSON `json:"properties,omitempty"`
	Origin     Origin         `json:"origin,omitempty"`
}

type propertyJSON struct {
	Key        string `json:"key"`
	Value      string `json:"value,omitempty"`
	Descriptor string `json:"descriptor,omitempty"`
	Queues     int    `json:"queues,omitempty"`
}

// MarshalJSON adds the option's words on the command line, with the names of descriptors.
func (o Option) MarshalJSON() ([]byte, error) {
	out := optionJSON{Words: o.Words(descriptorName), Flag: o.Flag, Value: o.Value, List: o.List, Origin: o.Origin}
	for _, p := range o.Properties {
		out.Properties = append(out.Properties, propertyJSON(p))
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Option) UnmarshalJSON(data []byte) error {
	var in optionJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*o = Option{Flag: in.Flag, Value: in.Value, List: in.List, Origin: in.Origin}
	for _, p := range in.Properties {
		o.Properties = append(o.Properties, Property(p))
	}
	return nil
}

// MarshalJSON writes each rule with its kind: [{"cpus": {…}}, …].
func (rs Rules) MarshalJSON() ([]byte, error) {
	out := make([]map[string]Rule, len(rs))
	for i, r := range rs {
		out[i] = map[string]Rule{r.Kind(): r}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (rs *Rules) UnmarshalJSON(data []byte) error {
	var in []map[string]json.RawMessage
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*rs = nil
	for _, entry := range in {
		for kind, text := range entry {
			r, err := readRule(kind, text)
			if err != nil {
				return fmt.Errorf("rule %q: %w", kind, err)
			}
			*rs = append(*rs, r)
		}
	}
	return nil
}

func readRule(kind string, text []byte) (Rule, error) {
	switch kind {
	case CPUs{}.Kind():
		return decodeRule[CPUs](text)
	case Balloon{}.Kind():
		return decodeRule[Balloon](text)
	case Memory{}.Kind():
		return decodeRule[Memory](text)
	case Medium{}.Kind():
		return decodeRule[Medium](text)
	case Disk{}.Kind():
		return decodeRule[Disk](text)
	case Limits{}.Kind():
		return decodeRule[Limits](text)
	case Disks{}.Kind():
		return decodeRule[Disks](text)
	case Affinity{}.Kind():
		return decodeRule[Affinity](text)
	case NICs{}.Kind():
		return decodeRule[NICs](text)
	case Link{}.Kind():
		return decodeRule[Link](text)
	case Ports{}.Kind():
		return decodeRule[Ports](text)
	case Password{}.Kind():
		return decodeRule[Password](text)
	}
	return nil, fmt.Errorf("there is no such kind")
}

func decodeRule[R Rule](text []byte) (Rule, error) {
	var r R
	err := json.Unmarshal(text, &r)
	return r, err
}
