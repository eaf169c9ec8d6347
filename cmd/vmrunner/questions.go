package main

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// questions asks a user at a terminal.
type questions struct {
	in   *bufio.Reader
	show func(...any)
}

func newQuestions(cmd *cobra.Command) *questions {
	return &questions{in: bufio.NewReader(cmd.InOrStdin()), show: func(text ...any) { cmd.PrintErr(text...) }}
}

// promptUntil asks until check accepts the answer. Empty input stands for the standard answer, "-" for an empty
// answer.
func (q *questions) promptUntil(what, standard string, check func(string) error) (string, error) {
	for {
		q.show(what, " [", firstNonEmpty(standard, "none"), "]: ")
		line, err := q.in.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the answers have ended")
			}
			return "", err
		}
		answer := firstNonEmpty(strings.TrimSpace(line), standard)
		if answer == "-" {
			answer = ""
		}
		if check == nil {
			return answer, nil
		}
		if err := check(answer); err == nil {
			return answer, nil
		} else {
			q.show(err, "\n")
		}
	}
}

// askYesNo asks a yes-or-no question.
func (q *questions) askYesNo(what string, standard bool) (yes bool, err error) {
	usual := "no"
	if standard {
		usual = "yes"
	}
	_, err = q.promptUntil(what, usual, func(answer string) error {
		switch strings.ToLower(answer) {
		case "y", "yes":
			yes = true
		case "n", "no", "":
			yes = false
		default:
			return errors.New("answer yes or no")
		}
		return nil
	})
	return yes, err
}
