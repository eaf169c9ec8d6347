package web

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"

	"vmop/manager/web/fleet"
)

func TestQueries(t *testing.T) {
	t.Parallel()
	vms := []*fleet.VM{
		{
			Name: "alpha", State: fleet.Running, RAM: fleet.Amount{Now: 2}, Labels: map[string]string{"Team": "Sales"},
			Addresses: []fleet.Address{{Address: "10.0.0.7"}}, Viewers: []fleet.Viewer{{Who: "zoe"}},
		},
		{Name: "beta", State: fleet.Stopped, Type: "windows", User: "adam"},
		{Name: "gamma", State: fleet.Running, RAM: fleet.Amount{Now: 1}, OS: "Debian", Node: "n1"},
	}
	for _, c := range []struct{ query, names string }{
		{"", "alpha beta gamma"},
		{"sort=-name", "gamma beta alpha"},
		{"sort=ram", "beta gamma alpha"},
		{"sort=-ram", "alpha gamma beta"},
		{"sort=state", "alpha gamma beta"},
		{"sort=user", "gamma beta alpha"},
		{"sort=nonsense", "alpha beta gamma"},
		{"q=ALPH", "alpha"},
		{"q=10.0.0.7", "alpha"},
		{"q=debian", "gamma"},
		{"q=windows", "beta"},
		{"q=team%3Dsales", "alpha"},
		{"q=team%3Dsale", ""},
		{"q=state%3Arunning+n1", "gamma"},
		{"q=zoe", "alpha"},
		{"q=a+b", "beta gamma"},
		{"page=7", "alpha beta gamma"},
		{"page=-1", "alpha beta gamma"},
	} {
		v, err := url.ParseQuery(c.query)
		require.NoError(t, err)
		q := parseQuery(v)
		_, page := q.chooseVMs(vms)
		names := ""
		for i, vm := range page {
			if i > 0 {
				names += " "
			}
			names += vm.Name
		}
		require.Equal(t, c.names, names, c.query)
		require.Equal(t, 1, q.Page)
	}
	require.Equal(t, "alpha", vms[0].Name, "the fleet's own list stays as it is")
}

// Parsing a query and encoding it again returns the same address.
func TestQueryAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "q=a+b", "page=2", "sort=-ram", "sort=-name", "page=3&q=%26&sort=cpus"} {
		v, err := url.ParseQuery(address)
		require.NoError(t, err)
		require.Equal(t, address, parseQuery(v).encodeQuery())
	}
	q := parseQuery(url.Values{"sort": {"ram"}, "page": {"4"}})
	require.Equal(t, "sort=-ram", q.sortedBy("ram").encodeQuery())
	require.Equal(t, "sort=cpus", q.sortedBy("cpus").encodeQuery())
	require.Equal(t, "", q.sortedBy("name").encodeQuery())
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1 GiB": 1 << 30, "1.5G": 3 << 29, "1,5 gib": 3 << 29, "512M": 512 << 20, " 512 mb ": 512 << 20,
		"2TiB": 2 << 40, "64k": 64 << 10,
		"512": -1, "": -1, "GiB": -1, "1 XiB": -1, "-1G": -1, "1e3G": -1, "NaN": -1, "Inf G": -1, "1Gx": -1, "1 BB": -1,
		"99999999999 TiB": -1, "1 G i B": -1, "0x1G": -1,
	} {
		got, ok := parseBytes(text)
		if !ok {
			got = -1
		}
		require.Equal(t, want, got, "%q", text)
	}
	english, german := words{tongue: &tongue{tag: language.English}}, words{tongue: &tongue{tag: language.German}}
	require.Equal(t, "1.5 GiB", english.formatBytes(3<<29))
	require.Equal(t, "1,5 GiB", german.formatBytes(3<<29))
	require.Equal(t, "512 MiB", german.formatBytes(512<<20))
	require.Equal(t, "0", english.formatBytes(0))
	require.Equal(t, "2 / 4", english.formatAmount(fleet.Amount{Now: 2, Wanted: 3, Maximum: 4}))
	require.Equal(t, "3", english.formatAmount(fleet.Amount{Wanted: 3, Maximum: 4}))
	require.Equal(t, "4", english.formatAmount(fleet.Amount{Now: 4, Wanted: 4, Maximum: 4}))
	require.Equal(t, "1\u00a0GiB\u00a0/ 2\u00a0GiB", english.formatMemory(fleet.Amount{Now: 1 << 30, Maximum: 2 << 30}))
	for _, n := range []int64{1 << 20, 3 << 29, 700 << 20, 5 << 40} {
		for _, w := range []words{english, german} {
			got, ok := parseBytes(w.formatBytes(n))
			require.True(t, ok)
			require.Equal(t, n, got, "what a page shows can be sent back")
		}
	}
}

// The series keeps one point per minute for a day.
func TestSeries(t *testing.T) {
	t.Parallel()
	var s series
	vms := []*fleet.VM{{CPUs: fleet.Amount{Now: 2}, RAM: fleet.Amount{Now: 5}}, {CPUs: fleet.Amount{Now: 1}}}
	for i := range 3 * 24 * 60 * 2 { // three days, twice a minute
		s.addPoint(then.Add(time.Duration(i)*30*time.Second), fleet.UseOf(vms))
	}
	end := then.Add(3*24*time.Hour - 30*time.Second)
	all := s.pointsSince(then)
	require.InDelta(t, 24*60, len(all), 2)
	require.Equal(t, end, all[len(all)-1].at)
	require.Equal(t, point{end, 3, 5}, all[len(all)-1])
	require.Empty(t, s.pointsSince(end.Add(time.Second)))
}
