package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A request is a request of the parent. Exactly one of the fields after File is set.
type request struct {
	Source   vmtypes.Source
	Name     string
	File     string
	Launch   *launch  `json:",omitempty"`
	Texts    *texts   `json:",omitempty"`
	Input    *input   `json:",omitempty"`
	Sizes    *options `json:",omitempty"`
	Describe bool     `json:",omitempty"`
	Diagnose string   `json:",omitempty"` // a file of the source
	Test     *test    `json:",omitempty"`
	Group    bool     `json:",omitempty"` // the process asks for jobs
	// Cover requests the counts of vmtypes.Coverage in each reply.
	Cover bool `json:",omitempty"`
}

type launch struct {
	VM   wireSpec
	Host vmtypes.Host
}

// texts requests the plans of several VMs.
type texts struct {
	VMs  []wireSpec
	Host vmtypes.Host
}

// An input is an input of a session or, if Complete is set, an unfinished line.
type input struct {
	VM       wireSpec
	Host     vmtypes.Host
	Before   []string
	Text     string
	Complete bool
}

// A test is a file of the source, and a pattern for the names of its tests.
type test struct{ File, Match string }

// A reply is the result of a request or a job.
type reply struct {
	Plan        *plan.Plan           `json:",omitempty"`
	Sizes       *vmspec.Sizes        `json:",omitempty"`
	Description *vmtypes.Description `json:",omitempty"`
	Texts       []string             `json:",omitempty"`
	Output      string               `json:",omitempty"`
	Names       []string             `json:",omitempty"`
	Results     json.RawMessage      `json:",omitempty"` // as the Tester returned them
	Archive     []byte               `json:",omitempty"`
	Failure     *failure             `json:",omitempty"`
	// Covered are the executions since the previous reply.
	Covered vmtypes.CoverageCounts `json:",omitempty"`
}

// A question is a question about the host. In the process of a Group, it can also be a request for the next job,
// together with the reply to the previous job.
type question struct {
	Exists   string `json:",omitempty"`
	DirectIO string `json:",omitempty"` // an image
	Format   string `json:",omitempty"` // of the image
	AIO      string `json:",omitempty"` // QEMU's program
	Firmware bool   `json:",omitempty"`
	Topology bool   `json:",omitempty"`
	// Processors, Confidential and PCI ask for the facts with these names. PCI is an address.
	Processors   bool   `json:",omitempty"`
	Confidential bool   `json:",omitempty"`
	PCI          string `json:",omitempty"`

	Next  bool   `json:",omitempty"`
	Reply *reply `json:",omitempty"`
}

// A failure is an error of package vmtypes. Doing is the context of the error; one of the other fields contains
// the details.
type failure struct {
	Doing  string
	Errors vmtypes.Errors       `json:",omitempty"`
	Faults *vmtypes.FaultsError `json:",omitempty"`
	Fields *vmtypes.FieldsError `json:",omitempty"`
	Text   string               `json:",omitempty"`
}

// newFailure converts an error; nil stays nil.
func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	var one *vmtypes.Error
	var f failure
	var detail error
	switch {
	case errors.As(err, &f.Errors):
		detail = f.Errors
	case errors.As(err, &one):
		f.Errors, detail = vmtypes.Errors{one}, one
	case errors.As(err, &f.Faults):
		detail = f.Faults
	case errors.As(err, &f.Fields):
		detail = f.Fields
	default:
		return &failure{Text: err.Error()}
	}
	f.Doing = strings.TrimSuffix(err.Error(), detail.Error())
	return &f
}

// asError converts a failure back to an error.
func (f *failure) asError() error {
	var detail error
	switch {
	case f == nil:
		return nil
	case len(f.Errors) == 1 && f.Errors[0] != nil:
		detail = f.Errors[0]
	case len(f.Errors) > 1 && !hasNil(f.Errors):
		detail = f.Errors
	case f.Faults != nil:
		detail = f.Faults
	case f.Fields != nil:
		detail = f.Fields
	default:
		detail = &vmtypes.Error{Message: f.Text}
	}
	if f.Doing == "" {
		return detail
	}
	return fmt.Errorf("%s%w", f.Doing, detail)
}

func hasNil(list vmtypes.Errors) bool {
	for _, e := range list {
		if e == nil {
			return true
		}
	}
	return false
}

// wireSpec is a spec in JSON. In the options, whole numbers stay distinct from floating-point numbers.
type wireSpec struct {
	Spec    vmspec.Spec
	Options any
}

func newWireSpec(spec vmspec.Spec) wireSpec {
	w := wireSpec{Spec: spec, Options: toWire(spec.Options)}
	w.Spec.Options = nil
	return w
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *wireSpec) UnmarshalJSON(data []byte) error {
	var in struct {
		Spec    vmspec.Spec
		Options json.RawMessage
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(in.Options))
	d.UseNumber()
	var options any
	if err := d.Decode(&options); err != nil {
		return err
	}
	w.Spec = in.Spec
	w.Spec.Options, _ = fromWire(options).(map[string]any)
	return nil
}

// infinity is the representation of an infinite number, which JSON lacks.
const infinity = "1e999"

// toWire converts floating-point numbers so that they contain a point or an exponent.
func toWire(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return nil
		}
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = toWire(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = toWire(v[i])
		}
		return out
	case float64:
		return json.Number(floatText(v))
	}
	return v
}

func floatText(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return infinity
	case math.IsInf(v, -1):
		return "-" + infinity
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func fromWire(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = fromWire(v[key])
		}
	case []any:
		for i := range v {
			v[i] = fromWire(v[i])
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64) // infinity if out of range
		return f
	}
	return v
}
