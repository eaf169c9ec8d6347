package qmp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

const canary = "canary-7311"

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	type object map[string]any
	for _, c := range []qmp.Command{
		{Execute: "set_password", Arguments: object{"protocol": "spice", "password": canary}},
		{Execute: "set_password", Arguments: struct {
			Password string `json:"password"`
		}{canary}},
		{Execute: "change-vnc-password", Arguments: json.RawMessage(`{"password": "` + canary + `"}`)},
		{Execute: "object-add", Arguments: object{"qom-type": "secret", "id": "s", "data": canary}},
		{Execute: "blockdev-add", Arguments: object{"file": object{"driver": "http", "password-secret": canary}}},
		{Execute: "blockdev-add", Arguments: []any{object{"a": []string{"b"}, "Encryption-Key": canary}}},
		{Execute: "qom-set", Arguments: object{"path": "/s", "property": "data", "value": canary}},
		{Execute: "human-monitor-command", Arguments: object{"command-line": "set_password vnc " + canary}},
		{Execute: "guest-exec", Arguments: object{"path": "/bin/x", "arg": []string{"-p", canary}}},
		{Execute: "set_password", Arguments: object{"passwrod": canary, "Password": canary}},
		{Execute: "set_password", Arguments: object{"passwort": 7311, "xs": []any{canary, object{"y": canary}}}},
		{Execute: "blockdev-add", Arguments: object{"url": "https://" + canary + "@h/a", "cookie": canary}},
		{Execute: "blockdev-change-medium", Arguments: object{
			"filename": "https://u:" + canary + "@h:8/a?sig=" + canary,
		}},
		{Execute: "blockdev-change-medium", Arguments: object{"filename": "http://" + canary + ":x@h?" + canary}},
		{Execute: "blockdev-change-medium", Arguments: object{"filename": `json:{"username":"` + canary + `"}`}},
		{Execute: "bad", Arguments: func() string { return canary }},
		{Execute: "bad", Arguments: json.RawMessage(canary)},
	} {
		asJSON, err := json.Marshal(c)
		require.NoError(t, err)
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "command", c, "many", []qmp.Command{c})
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "command", c, "many", []qmp.Command{c})
		text := string(asJSON) + log.String()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text += fmt.Sprintf(verb, c) + fmt.Sprintf(verb, &c) + fmt.Sprintf(verb, []qmp.Command{c})
		}
		require.NotContains(t, text, canary)
		require.NotContains(t, text, fmt.Sprintf("%x", canary))
		require.Contains(t, text, c.Execute)
	}
}

func TestACommandShowsWhatIsNotSecret(t *testing.T) {
	t.Parallel()
	c := qmp.Command{Execute: "qom-set", Arguments: map[string]any{
		"path": "/machine/mem", "property": "requested-size", "value": uint64(1<<63 + 1), "password": "x",
	}}
	require.Equal(t, `qom-set {"password":"***","path":"/machine/mem","property":"requested-size","value":9223372036854775809}`, c.String())
	require.Equal(t, `blockdev-change-medium {"filename":"https://***@h:8/a?***","force":true,"id":"cd0"}`,
		qmp.Command{Execute: "blockdev-change-medium", Arguments: map[string]any{
			"id": "cd0", "filename": "https://me:pw@h:8/a?b=c", "force": true,
		}}.String())
	require.Equal(t, "cont", qmp.Command{Execute: "cont"}.String())
}

func TestTheTraceTellsAllButSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
	p, s := newReadyPeer(t, qmp.WithTrace(slog.New(handler)))
	set := s.Start(qmp.Command{Execute: "set_password", Arguments: map[string]string{
		"protocol": "vnc",
		"password": canary,
	}})
	require.JSONEq(t, `{"protocol": "vnc", "password": "`+canary+`"}`, string(p.hear().Arguments))
	p.say(`{"event": "VNC_CONNECTED"}`)
	p.say(`{"error": {"class": "GenericError", "desc": "no VNC"}, "id": 2}`)
	_, err := set.Wait(timeout(t))
	require.EqualError(t, err, "QMP set_password: no VNC")
	require.NoError(t, s.Close())

	require.NotContains(t, log.String(), canary)
	require.Contains(t, log.String(), `msg="QMP command" command="set_password {\"password\":\"***\",\"protocol\":\"vnc\"}"`)
	require.Contains(t, log.String(), `msg="QMP event" event=VNC_CONNECTED`)
	require.Contains(t, log.String(), `msg="QMP reply" command=set_password bytes=0 err="no VNC"`)
}
