package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/access/login"
	"vmop/test/browser"
	"vmop/test/guest"
	"vmop/test/ports"
)

// A native viewer, started with the file that the page offers, shows the guest's screen through the pages' address,
// without QEMU's port and password.
func TestViewerShowsTheScreen(t *testing.T) {
	t.Parallel()
	c := newComputer(t, "display: {vnc: {}}",
		"display: {spice: {port: "+strconv.Itoa(ports.Reserve(t))+", address: 127.0.0.1}}")
	require.NoError(t, os.WriteFile(c.path("vms/display-password"), []byte("that the test does not tell"), 0o600))
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client, key := &http.Client{Jar: jar}, ""
	ask := func(method, address string, form url.Values) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(login.PageKeyHeader, key)
		answer, err := client.Do(r)
		require.NoError(t, err)
		return answer
	}
	get := func(address string) string {
		answer := ask(http.MethodGet, address, nil)
		if fragment := answer.Request.URL.Fragment; fragment != "" {
			key = strings.TrimPrefix(fragment, login.PageKeyField+"=")
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode, "%s", text)
		return string(text)
	}
	get(c.link)
	answer := ask(http.MethodPost, c.address("/vms/"+c.vm+"/do"), url.Values{"do": {"start"}})
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	c.says(guest.EchoSays)
	require.Contains(t, get(c.address("/vms/"+c.vm)), `href="/vms/`+c.vm+`/viewer.vv"`)

	file := get(c.address("/vms/" + c.vm + "/viewer.vv"))
	value := func(key string) string {
		found := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(file)
		require.NotNil(t, found, file)
		return found[1]
	}
	require.Equal(t, c.address(""), value("proxy"))
	ctx, cancel := context.WithTimeout(t.Context(), browser.Patience)
	defer cancel()
	shoot := func(host, file string) ([]byte, error) {
		viewer := exec.CommandContext(ctx, "spicy-screenshot", "-h", host, "-p", value("port"), "-o", c.path(file))
		viewer.Env = append(os.Environ(), "SPICE_PROXY="+value("proxy"), "HOME="+c.path("home"))
		return viewer.CombinedOutput()
	}
	out, err := shoot(value("host"), "shot.ppm")
	require.NoError(t, err, "the Debian package spice-client-gtk: %s", out)
	shot, err := os.ReadFile(c.path("shot.ppm"))
	require.NoError(t, err, "%s", out)
	var width, height int
	_, err = fmt.Sscanf(string(shot), "P6\n%d %d\n255\n", &width, &height)
	require.NoError(t, err, "%.20q", shot)
	pixels := shot[len(fmt.Sprintf("P6\n%d %d\n255\n", width, height)):]
	require.Len(t, pixels, 3*width*height)
	require.Greater(t, len(pixels)-bytes.Count(pixels, []byte{0}), 500, "the guest's text")

	_, _ = shoot("127.0.0.1", "none.ppm") // it always exits with 0
	require.NoFileExists(t, c.path("none.ppm"), "the proxy leads nowhere without a ticket")
}
