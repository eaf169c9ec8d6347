package guest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/guest"
)

// dialogue is a conversation with a log-in agent as a list of steps:
//
//	want alice     the configuration
//	opened         the guest opens the port; "again": the agent may have greeted an earlier runner
//	closed
//	< 220 Hello    the agent sends lines in one message, separated by |
//	+5m            time goes by
//	> login alice  the host sends this; without this step it must send no command
//	= alice        the user logged in now; "-": no user, "!": the agent is not connected
//	? text         the current failure
type dialogue struct {
	t     *testing.T
	login guest.Login
	now   time.Time
	said  []string
}

func (d *dialogue) step(step string) {
	d.t.Helper()
	word, rest, _ := strings.Cut(step, " ")
	if word != ">" && word != "=" && word != "?" {
		require.Empty(d.t, d.said, "before %s", step)
	}
	switch word {
	case "want":
		d.login.Want(rest)
	case "opened":
		d.login.Opened(rest == "again")
	case "closed":
		d.login.Closed()
	case "<":
		for line := range strings.SplitSeq(rest, "|") {
			d.login.Receive(line, d.now)
		}
	case ">":
		require.NotEmpty(d.t, d.said, "no line was sent; expected %s", rest)
		require.Equal(d.t, rest, d.said[0])
		d.said = d.said[1:]
		return
	case "=":
		state := d.login.State()
		require.Equal(d.t, rest != "!", state.Connected, "connected")
		require.Equal(d.t, strings.Trim(rest, "-!"), state.User)
		return
	case "?":
		require.Equal(d.t, rest, d.login.State().Failure)
		return
	default:
		wait, err := time.ParseDuration(word)
		require.NoError(d.t, err, step)
		d.now = d.now.Add(wait)
	}
	if line := d.login.Send(d.now); line != "" {
		d.said = append(d.said, line)
	}
	require.Empty(d.t, d.login.Send(d.now), "sent once")
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]string{
		"a user is logged in, another one, none": `
			want alice; = !; opened; = !; < 220 Hello; > login alice; = -
			< 150 wait; = -; < 201 User logged in; = alice
			want bob; > login bob; = alice; < 202 alice has left; = -; < 201; = bob
			want ; > logout; = bob; < 202 bye; = -`,
		"no user is wanted": `opened; < 220 Hello; > logout; < 202; = -; ? `,
		"what is not asked for is no news": `want a; opened; < 201 root logged in; = !; < 220; > login a; < 201; < ` +
			`201; < 599 x; ? ; = a`,
		"no user can be in uninvited": `opened; < 220; > logout; < 201 root is in; = -; ? 201 root is in; < ` +
			`201 root; = -`,
		"a user leaves by himself": `want a; opened; < 220; > login a; < 201; = a; < 202 has left; = -`,
		"the agent goes": `want a; opened; < 220; > login a; < 201; = a; < 240 Quit; = !; want ` +
			`b; < 220; > login b; = -`,
		"the port closes": `want a; opened; < 220; > login a; < 201; closed; = !; opened; = !; ` +
			`want b; < 220; > login b; < 201; = b`,
		"the agent begins anew": `want a; opened; < 220; > login a; < 201; = a; < 220; > login a; = -; ` +
			`< 201; = a`,
		"an agent found listening is asked": `want a; opened again; > login a; = !; < 201 already; = a`,
		"and if it greets, asked again":     `want a; opened again; > login a; < 220; > login a; = -; < 201; = a`,
		"it is refused": `want root; opened; < 220; > login root; < 504 Won't log in root; = -; ` +
			`? 504 Won't log in root; want a; > login a; ? ; < 201; = a`,
		"refused, and wanted again": `want a; opened; < 220; > login a; < 450 busy; want b; > login b; < ` +
			`450; want a; > login a; ? ; < 201; = a`,
		"one command at a time": `want a; opened; < 220; > login a; want b; want c; = -; < 201; = a; > ` +
			`login c; < 201; = c`,
		"wanted away and back": `want a; opened; < 220; > login a; want b; want a; < 201; = a`,
		"an answer is long in coming": `
			want a; opened; < 220; > login a; 4m; < 150 creating the home; 4m; ? ; 1m; ? the agent did not answer login a
			= -; < 201 done; = a; ? `,
		"an agent that never answers gets the next command": `
			want a; opened; < 220; > login a; want b; 5m; > login b; ? ; < 201; = b`,
		"noise": `want a; opened; < hello|220|; > login a; < |2|20|2010 x|201x|x201|201-more|220
			> login a; = -`,
		"all at once":           `want a; opened; < 220|201|202|220|500|201; > login a; = -`,
		"another code":          `want a; opened; < 220; > login a; < 299 what; = -; ? 299 what`,
		"escape codes are seen": "want a; opened; < 220; > login a; < 500 \x1b[31mred; ? 500 \ufffd[31mred",
		"a name that is more than a name": "want a\nlogout; opened; < 220; = -; ? the name is too long or not " +
			"printable; " +
			"want b; > login b; ? ; < 201; = b; want \x1b[m; = b; ? the name is too long or not printable; want ; > " +
			"logout",
		"no name at all":      "want \xff; opened; < 220; ? the name is too long or not printable",
		"a name with a blank": `want Ada Lovelace; opened; < 220; > login Ada Lovelace; < 201; = Ada Lovelace`,
		"a name longer than that": `want ` + strings.Repeat("x", guest.MaxText+1) +
			`; opened; < 220; ? the name is too long or not printable`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dialogue{t: t, now: time.Now()}
			steps = strings.ReplaceAll(steps, "\n\t\t\t", ";")
			for step := range strings.SplitSeq(steps, ";") {
				if step = strings.Trim(step, "\t "); step != "" {
					d.step(step)
				}
			}
			require.Empty(t, d.said)
		})
	}
}

func TestAnOverdueAnswerWakesTheHost(t *testing.T) {
	t.Parallel()
	var l guest.Login
	now := time.Now()
	require.Zero(t, l.Wake(now))
	l.Want("a")
	l.Opened(true)
	require.Equal(t, "login a", l.Send(now))
	require.Equal(t, now.Add(guest.AnswerTime), l.Wake(now))
	require.Zero(t, l.Wake(now.Add(guest.AnswerTime)), "once")
	l.Receive("201", now)
	require.Zero(t, l.Wake(now))
}
