package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vmop/internal/cli"
	"vmop/internal/keepalive"
	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
)

// manager is a client of a manager's JSON API (docs/reference/api.md), with a token and without rights in the
// cluster.
//
// See docs/decisions/0076-through-the-manager.md.
type manager struct {
	base *url.URL
	http *http.Client
}

// managerFlags specify how to reach a manager; an empty url means no manager.
type managerFlags struct{ url, authority, tokenFile string }

func (m *managerFlags) addFlags(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&m.url, "manager", os.Getenv("VMOP_MANAGER"),
		"`URL` of the manager's pages, to use the VMs through it (default $VMOP_MANAGER)")
	p.StringVar(&m.authority, "manager-ca", os.Getenv("VMOP_MANAGER_CA"),
		"`FILE` with the certificate of the manager's authority (default $VMOP_MANAGER_CA)")
	p.StringVar(&m.tokenFile, "token-file", os.Getenv("VMOP_TOKEN_FILE"),
		"`FILE` with the token for the manager (default $VMOP_TOKEN_FILE, then the token in the kubeconfig)")
	for _, name := range []string{"manager", "manager-ca", "token-file"} {
		p.Lookup(name).DefValue = "" // keep the help independent of the environment
	}
	cli.CompleteFile(root, "manager-ca", "crt", "pem")
	cli.CompleteFile(root, "token-file")
}

// viaManager returns the manager that the user has specified, or nil if VMs are reached through the API server.
func (f *flags) viaManager(cmd *cobra.Command) (*manager, error) {
	if err := takeOver(cmd); err != nil {
		return nil, err
	}
	if f.manager.url == "" {
		return nil, nil
	}
	base, err := url.Parse(strings.TrimSuffix(f.manager.url, "/"))
	switch {
	case err != nil:
		return nil, cli.UsageError{Err: errors.New("--manager: must be an address such as https://vms.example.com")}
	case base.Host == "" || base.User != nil || base.RawQuery != "" || base.Path != "":
		return nil, cli.UsageError{
			Err: fmt.Errorf("--manager %s: must be an address such as https://vms.example.com", base.Redacted()),
		}
	case base.Scheme != "https" && (base.Scheme != "http" || !isLoopbackHost(base.Hostname())):
		return nil, cli.UsageError{
			Err: fmt.Errorf("--manager %s: must be https; otherwise others on the way could read the token", base.Redacted()),
		}
	}
	// Do not follow redirects, because the token is for this manager only.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	m := &manager{base: base, http: &http.Client{CheckRedirect: stay}}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.manager.authority != "" {
		text, err := readfile.ReadFile(f.manager.authority, largestFile)
		if err != nil {
			return nil, fmt.Errorf("read the manager's authority: %w", err)
		}
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", f.manager.authority)
		}
	}
	plain := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, ForceAttemptHTTP2: false,
		DialContext: keepalive.Minute.Dialer().DialContext,
	}
	m.http.Transport, err = f.authenticate(plain)
	return m, err
}

func isLoopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Limits for files and answers, in bytes.
const (
	largestFile   = 1 << 20
	largestToken  = 16 << 10
	largestAnswer = 32 << 20
)

// authenticate returns a transport that adds the token. The token comes from the file or from the kubeconfig's
// user. If necessary, the transport runs the user's program for tokens (exec).
func (f *flags) authenticate(plain http.RoundTripper) (http.RoundTripper, error) {
	if f.manager.tokenFile != "" {
		return fromFile{f.manager.tokenFile, plain}, nil
	}
	const hint = "give --token-file FILE, or the kubeconfig a user of OpenID Connect"
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides).ClientConfig()
	switch {
	case err != nil:
		return nil, hinted{fmt.Errorf("find a token for the manager: read the kubeconfig: %w", err), hint}
	case config.BearerToken == "" && config.BearerTokenFile == "" && config.ExecProvider == nil:
		return nil, hinted{errors.New("the user of the kubeconfig has no token for the manager"), hint}
	case f.overrides.AuthInfo.Token == "" && isServiceAccount(config.BearerToken):
		return nil, hinted{
			errors.New("the token of the kubeconfig is a service account's for the API server, and is not sent elsewhere"),
			"kubectl create token NAME --audience AUDIENCE > FILE, and --token-file FILE",
		}
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{}
	return rest.HTTPWrappersForConfig(config, plain)
}

// isServiceAccount reports whether a token claims to belong to a service account.
func isServiceAccount(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(data, &claims) == nil &&
		strings.HasPrefix(claims.Subject, "system:serviceaccount:")
}

// fromFile adds the token in a file. It reads the file for each request, because the token may be renewed.
type fromFile struct {
	path string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fromFile) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := readfile.ReadFile(f.path, largestToken)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(text)))
	return f.next.RoundTrip(r)
}

// problem is the manager's answer to a failed request (RFC 9457).
type problem struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
}

func (p *problem) Error() string { return p.Detail }

// problemOf returns the error in an answer.
func problemOf(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, largestFile))
	if err != nil {
		return fmt.Errorf("read the manager's answer: %w", err)
	}
	p := &problem{}
	if json.Unmarshal(text, p) != nil || p.Detail == "" {
		p.Detail = "the manager answered " + answer.Status + ": " + strings.TrimSpace(string(text))
	}
	p.Status, p.Detail = answer.StatusCode, cli.Printable(printable.Clip(p.Detail, 4<<10))
	if p.Status == http.StatusLocked {
		return &control.AnswerError{Code: p.Status, Message: p.Detail}
	}
	return p
}

// vmURL returns the address for a request about a VM.
func (m *manager) vmURL(name string, more ...string) string {
	path := m.base.String() + "/api/v1/vms/" + url.PathEscape(name)
	for _, part := range more {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// sendRequest sends a request. The caller must close the answer. header contains alternating names and values.
func (m *manager) sendRequest(ctx context.Context, method, address string, body []byte, header ...string) (
	*http.Response, error,
) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("send a request to the manager: %w", err)
	}
	r.Header.Set("User-Agent", "kubectl-vmop/"+version)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := m.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("send a request to the manager: %w", causeOf(ctx, err))
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		defer answer.Body.Close()
		return nil, problemOf(answer)
	}
	return answer, nil
}

// doRequest sends a request and reads the answer: as JSON, into a *bytes.Buffer, or not at all if into is nil.
func (m *manager) doRequest(ctx context.Context, method, address string, body []byte, into any,
	header ...string,
) error {
	answer, err := m.sendRequest(ctx, method, address, body, header...)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("read the manager's answer: %w", causeOf(ctx, err))
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *bytes.Buffer:
		into.Write(text)
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the manager's answer: %w", err)
	}
	return nil
}

// seen is a VM in the form shown by the manager.
type seen struct {
	fleet.VM
	Can []fleet.Action `json:"can"`
}

// getVM returns a VM.
func (m *manager) getVM(ctx context.Context, name string) (vm *seen, err error) {
	vm = &seen{}
	return vm, m.doRequest(ctx, http.MethodGet, m.vmURL(name), nil, vm)
}

// awaitVM waits until a VM reaches a goal. wanted is called with nil if the VM does not exist.
func (m *manager) awaitVM(ctx context.Context, name string, wanted func(*seen) (bool, error)) (*seen, error) {
	for {
		vm, reached, err := m.followVM(ctx, name, wanted)
		if reached || err != nil {
			return vm, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retry): // the manager has ended, but another manager may run
		}
	}
}

// followVM waits for events until a VM reaches a goal. It returns no error if the events end first.
func (m *manager) followVM(ctx context.Context, name string, wanted func(*seen) (bool, error)) (*seen, bool, error) {
	address := m.base.String() + "/api/v1/events?vm=" + url.QueryEscape(name)
	answer, err := m.sendRequest(ctx, http.MethodGet, address, nil, "Accept", "text/event-stream")
	if err != nil {
		return nil, false, causeOf(ctx, err)
	}
	defer answer.Body.Close()
	var vm *seen
	event := ""
	in := bufio.NewScanner(answer.Body)
	in.Buffer(nil, largestFile)
	for in.Scan() {
		kind, value, _ := strings.Cut(in.Text(), ": ")
		switch {
		case kind == "event":
			event = value
			continue
		case kind != "data" || event == "gone":
			continue
		case event == "removed":
			vm = nil
		case event == "vm":
			vm = &seen{}
			if err := json.Unmarshal([]byte(value), vm); err != nil {
				return nil, false, fmt.Errorf("read the manager's events: %w", err)
			}
		}
		if reached, err := wanted(vm); reached || err != nil {
			return vm, reached, err
		}
	}
	return nil, false, nil
}
