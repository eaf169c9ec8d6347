package reconcile_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/qmp"
	"vmop/runner/reconcile"
	"vmop/vmtypes/plan"
)

// slots is what QEMU answers: the highest first, the boot CPU last.
func slots(total int, plugged ...string) []reconcile.CPU {
	list := make([]reconcile.CPU, total)
	for i := range list {
		core := total - 1 - i
		list[i] = reconcile.CPU{Type: "max-x86_64-cpu", Props: json.RawMessage(`{"core-id":` + string(rune('0'+core)) + `}`)}
		if core == 0 {
			list[i].Path = "/machine/unattached/device[0]"
		} else if core <= len(plugged) {
			list[i].Path = "/machine/peripheral/" + plugged[core-1]
		}
	}
	return list
}

func texts(commands []qmp.Command) []string {
	list := make([]string, len(commands))
	for i, c := range commands {
		b, err := json.Marshal(c.Arguments)
		if err != nil {
			panic(err)
		}
		list[i] = c.Execute + " " + string(b)
	}
	return list
}

func TestCPUs(t *testing.T) {
	t.Parallel()
	rules := plan.Rules{plan.CPUs{Boot: 1, Maximum: 4, ID: "cpu-%d"}}
	for name, c := range map[string]struct {
		want int
		have []reconcile.CPU
		next []string
	}{
		"one CPU is there already": {1, slots(4), []string{}},
		"the lowest slots are taken first": {3, slots(4), []string{
			`device_add {"core-id":1,"driver":"max-x86_64-cpu","id":"cpu-1"}`,
			`device_add {"core-id":2,"driver":"max-x86_64-cpu","id":"cpu-2"}`,
		}},
		"ids in use are left out": {3, slots(4, "cpu-2"), []string{`device_add {"core-id":2,"driver":"max-x86_64-cpu","id":"cpu-1"}`}},
		"enough is enough":        {2, slots(4, "cpu-1", "cpu-2"), []string{}},
	} {
		commands, err := reconcile.Next(rules, reconcile.Desired{CPUs: c.want}, reconcile.Observed{CPUs: c.have})
		require.NoError(t, err, name)
		require.Equal(t, c.next, texts(commands), name)
	}
	_, err := reconcile.Next(rules, reconcile.Desired{CPUs: 9}, reconcile.Observed{CPUs: slots(4)})
	require.EqualError(t, err, "rule cpus boot=1 maximum=4 id=cpu-%d: 9 CPUs are wanted, QEMU has slots for 4")
}

func TestBalloon(t *testing.T) {
	t.Parallel()
	rules := plan.Rules{plan.Balloon{Device: "balloon0", Maximum: 1000}}
	for _, c := range []struct {
		want, have int64
		next       []string
	}{
		{500, 1000, []string{`balloon {"value":500}`}},
		{500, 500, []string{}},
		{2000, 1000, []string{}},
		{0, 1000, []string{}},
	} {
		commands, err := reconcile.Next(rules, reconcile.Desired{RAM: c.want}, reconcile.Observed{RAM: c.have})
		require.NoError(t, err)
		require.Equal(t, c.next, texts(commands))
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	spice, vnc := plan.Password{Protocol: "spice"}, plan.Password{Protocol: "vnc", Display: "vnc0"}
	secret := &reconcile.Password{Text: config.NewPassword("s"), Expiry: "+60"}
	for name, c := range map[string]struct {
		rules      plan.Rules
		want, have *reconcile.Password
		next       []string
	}{
		"none wanted": {plan.Rules{spice}, nil, nil, []string{}},
		"both displays": {plan.Rules{spice, vnc}, secret, nil, []string{
			`set_password {"password":"s","protocol":"spice"}`, `expire_password {"protocol":"spice","time":"+60"}`,
			`set_password {"display":"vnc0","password":"s","protocol":"vnc"}`, `expire_password {"display":"vnc0","protocol":"vnc","time":"+60"}`,
		}},
		"set already":       {plan.Rules{spice}, secret, &reconcile.Password{Text: config.NewPassword("s"), Expiry: "+60"}, []string{}},
		"no expiry":         {plan.Rules{spice}, &reconcile.Password{Text: config.NewPassword("t")}, nil, []string{`set_password {"password":"t","protocol":"spice"}`}},
		"nothing by itself": {nil, secret, nil, []string{}},
	} {
		commands, err := reconcile.Next(c.rules, reconcile.Desired{Password: c.want}, reconcile.Observed{Password: c.have})
		require.NoError(t, err, name)
		require.Equal(t, c.next, texts(commands), name)
	}
}
