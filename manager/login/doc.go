// Package login knows who sends a request: it logs users in and out, keeps their sessions,
// and reviews the tokens of programs. What they may do then, package manager/access decides.
//
//	POST name and password ──▶ LogIn ─────────────┐
//	GET  begin an OIDC log-in ──▶ Begin ──▶ provider
//	GET  redirected from there ──▶ Callback ──────┤──▶ Session, SetCookie
//	GET  one-time link of this computer ─▶ Redeem ┘
//	any request ──▶ Middleware: cookie, or bearer token ──▶ Session in the context
//
// Pages and redirects are package manager/web's; here are no texts for users but errors.
//
// # Log-in
//
// A local user has a bcrypt hash (users.go). Attempts are delayed by user and address
// (limiter.go), at most a few hashes are computed at a time, and a wrong name takes the work
// of a wrong password (password.go). By OpenID Connect (oidc.go) the code flow is used with PKCE,
// state and nonce; the token's signature, issuer, audience and time are checked. Roles are a
// claim's, and those that the configuration adds (roles.go).
//
// # Sessions
//
// The cookie is the session, encrypted with a key that all managers of a namespace share, so
// that a request can be answered by any of them (sealed.go, session.go). What a manager remembers of
// it is when it was used last, and who waits for its end: [Session.Done] is closed at log-out,
// when it expires, and when its user is taken out of the configuration. Log-outs are shared
// through a Secret (secret.go). See docs/decisions/0062-sessions.md.
//
// Each log-in, refusal and log-out is one line of the log; no password, token or cookie
// is. [Service.Figures] counts them.
package login
