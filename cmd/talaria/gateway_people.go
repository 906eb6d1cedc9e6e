package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/gateway"
	"talaria/store/chats"
)

func pairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pair PLATFORM", Short: "Print a pairing code, which lets one person use the bot", Args: arguments(1, 1),
		Long: `Print a pairing code. The first person who sends "/pair CODE" to the bot may use it from then on. The code is valid for
ten minutes, and works while the bot is running.`,
		RunE: withChats(func(cmd *cobra.Command, db *chats.Store, _ []string) error {
			admin, _ := cmd.Flags().GetBool("admin")
			code, err := newPairingCode(cmd.Context(), db, admin)
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string]any{"code": code, "expires_s": gateway.PairingTime.Seconds(), "admin": admin})
			}
			word := "/pair"
			if cmd.Flags().Arg(0) == "slack" { // which does not pass on messages that begin with a slash
				word = "pair"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Send this to the bot within %.0f minutes: %s %s\n", gateway.PairingTime.Minutes(), word, code)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), code)
			return err
		}),
	}
	cmd.Flags().Bool("admin", false, "the person may also decide on other people's approvals")
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func botUsersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "users PLATFORM", Short: "List the people who were paired", Args: arguments(1, 1),
		RunE: withChats(func(cmd *cobra.Command, db *chats.Store, _ []string) error {
			var people []chats.Person
			if err := db.Do(cmd.Context(), func(tx *chats.Tx) (err error) { people, err = tx.People(); return err }); err != nil {
				return err
			}
			if asJSON(cmd) {
				list := []map[string]any{}
				for _, p := range people {
					list = append(list, map[string]any{"id": p.ID, "name": p.Name, "admin": p.Admin, "paired_at": api.At(p.PairedAt)})
				}
				return printJSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tNAME\tADMIN\tPAIRED")
			for _, p := range people {
				fmt.Fprintf(w, "%s\t%q\t%t\t%s\n", p.ID, p.Name, p.Admin, p.PairedAt.Format(time.DateOnly))
			}
			return w.Flush()
		}),
	}
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func unpairCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unpair PLATFORM ID...", Short: "Revoke people's right to use the bot", Args: arguments(2, -1),
		RunE: withChats(func(cmd *cobra.Command, db *chats.Store, ids []string) error {
			err := db.Do(cmd.Context(), func(tx *chats.Tx) error {
				for _, id := range ids {
					found, err := tx.RemovePerson(id)
					if err != nil {
						return err
					}
					if !found {
						return fmt.Errorf("no one with the id %s is paired; %s gateway users lists the people who are", id, program)
					}
				}
				return nil
			})
			if err == nil && asJSON(cmd) {
				return printJSON(cmd.OutOrStdout(), map[string][]string{"removed": ids})
			}
			return err
		}),
	}
	addJSON(cmd)
	return cmd
}

// withChats opens the database of the bot that the first argument names.
func withChats(run func(*cobra.Command, *chats.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if !slices.Contains(platforms, args[0]) {
			return usagef("unknown platform %q; it must be %s", args[0], strings.Join(platforms, " or "))
		}
		c, err := load(cmd)
		if err != nil {
			return err
		}
		path, err := c.chatsPath(args[0])
		if err != nil {
			return err
		}
		db, err := chats.OpenGuest(cmd.Context(), path)
		if err != nil {
			return err
		}
		defer closing(&err, db.Close)
		return run(cmd, db, args[1:])
	}
}
