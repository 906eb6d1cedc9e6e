package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"talaria/api"
	"talaria/client"
	"talaria/gateway"
	"talaria/gateway/assistant"
	"talaria/gateway/slack"
	"talaria/gateway/telegram"
	"talaria/store"
	"talaria/store/chats"
)

// hookTime is how long a request of a platform may take when the bot ends.
const hookTime = 3 * time.Second

// gateways are the bots of chat platforms.
type gateways struct {
	Telegram  telegramBot     `config:"telegram"`
	Slack     slackBot        `config:"slack"`
	Assistant assistantConfig `config:"assistant"`
	PublicURL string          `config:"public_url"` // of the server, for links to large files; "" for no links
}

// assistantConfig is the model that answers messages in plain words.
type assistantConfig struct {
	BaseURL string `config:"base_url"` // of a chat completions endpoint; "" for no assistant
	Model   string `config:"model"`
	KeyFile string `config:"key_file"`
}

// open makes the assistant, nil for none.
func (a assistantConfig) open(c config) (*assistant.Assistant, error) {
	if a.BaseURL == "" {
		return nil, nil
	}
	key := ""
	if a.KeyFile != "" {
		var err error
		if key, err = given("", "", a.KeyFile); err != nil {
			return nil, c.wrong("gateways.assistant.key_file", "cannot be read: %w", err)
		}
	}
	made, err := assistant.New(assistant.Config{BaseURL: a.BaseURL, Model: a.Model, Key: key})
	if err != nil {
		return nil, c.wrong("gateways.assistant.base_url", "cannot be used: %w", err)
	}
	return made, nil
}

// chatBot is a bot on a chat platform, and what the sessions of its chats have.
type chatBot struct {
	TokenFile  string   `config:"token_file"`  // of the bot; "" for no bot
	Users      []string `config:"users"`       // ids of people and of chats that may use it
	Admins     []string `config:"admins"`      // ids of people who may also answer approvals of others
	Interrupt  bool     `config:"interrupt"`   // a cell that is sent while another runs interrupts it
	Listen     string   `config:"listen"`      // HOST:PORT where the platform's requests arrive
	SecretFile string   `config:"secret_file"` // proves that a request is the platform's
	APIURL     string   `config:"api_url"`     // of the platform's API, if it is not the platform's own

	Limits       []string `config:"limits"` // NAME=VALUE; others are as in other sessions
	Budgets      []string `config:"budgets"`
	Network      string   `config:"network"`
	NetworkAllow []string `config:"network_allow"`
	Approvals    string   `config:"approvals"`
	Environment  string   `config:"environment"`
}

type telegramBot struct {
	chatBot
	WebhookURL string `config:"webhook_url"` // "": the bot asks for updates
}

type slackBot struct {
	chatBot
	AppTokenFile  string `config:"app_token_file"` // for Socket Mode; "": events come by HTTP
	DirectThreads bool   `config:"direct_threads"` // a direct message opens a thread with a session of its own
}

// platforms are the names of the chat platforms.
var platforms = []string{"telegram", "slack"}

func gatewayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gateway", Short: "Run a Telegram or Slack bot that gives each chat a session", Args: arguments(0, 0),
		Long: `Run a chat bot: each chat has its own session, and messages run as Python.

Initially nobody may use a bot: list the ids of users, or create a pairing code and send it to the bot. A bot can also run
inside the server; see docs/gateways.md.`,
		Example: `  talaria gateway telegram --token-file telegram-token
  talaria gateway pair telegram
  talaria gateway users telegram`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	run := &cobra.Command{
		Use: "telegram", Short: "Run a Telegram bot", Args: arguments(0, 0),
		Long: `Run a Telegram bot. @BotFather gives you its token.

Its sessions belong to the owner "telegram", unless --token is given. All options are also keys of the configuration below
gateways.telegram, which also has keys for limits and the network.`,
		Example: `  talaria gateway telegram --token-file telegram-token`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBot(cmd, "telegram") },
	}
	addBotFlags(run)
	run.Flags().String("webhook-url", "", "https URL where Telegram sends updates; default: the bot polls for them")
	slack := &cobra.Command{
		Use: "slack", Short: "Run a Slack bot", Args: arguments(0, 0),
		Long: `Run a Slack app as a bot. docs/gateways.md has the manifest that creates the app.

Events arrive over Socket Mode (--app-token-file), or over HTTP (--listen, and --secret-file with the signing secret).
Its sessions belong to the owner "slack", unless --token is given. All options are also keys of the configuration below
gateways.slack, which also has keys for limits and the network.`,
		Example: `  talaria gateway slack --token-file slack-token --app-token-file slack-app-token`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runBot(cmd, "slack") },
	}
	addBotFlags(slack)
	slack.Flags().String("app-token-file", "", "file with the app-level token, for Socket Mode")
	slack.Flags().Bool("direct-threads", false, "each direct message opens a thread with its own session")
	cmd.AddCommand(run, slack, pairCommand(), botUsersCommand(), unpairCommand())
	return cmd
}

// addBotFlags adds what the bots of all platforms take.
func addBotFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("token-file", "", "file with the bot's token")
	f.StringSlice("users", nil, "ids of people or chats that may use the bot")
	f.StringSlice("admins", nil, "ids of people who may also decide on other people's approvals")
	f.Bool("interrupt", false, "a cell that is sent while another one runs interrupts it and cancels waiting ones")
	f.String("listen", "", "HOST:PORT to listen on for the platform's requests")
	f.String("secret-file", "", "file with the secret that proves that a request comes from the platform")
	f.String("api-url", "", "URL of the platform's API, if it is not the platform's own")
	f.String("public-url", "", "address at which people in chats reach the server, for links to files that are too large to send")
	addLogFlags(f)
	addConnection(cmd)
}

// chatsPath is the database of a bot. Its directory is made.
func (c config) chatsPath(platform string) (string, error) {
	dir := filepath.Join(c.StateDir, "gateways")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the directory of gateways: %w", err)
	}
	return filepath.Join(dir, platform+".db"), nil
}

func newPairingCode(ctx context.Context, db *chats.Store, admin bool) (code string, err error) {
	return code, db.Do(ctx, func(tx *chats.Tx) (err error) { code, err = gateway.NewCode(tx, admin); return err })
}

// runBot is talaria gateway telegram, or another platform.
func runBot(cmd *cobra.Command, platform string) (err error) {
	c, err := load(cmd)
	if err != nil {
		return err
	}
	bot := c.bot(platform)
	for flag, into := range map[string]*string{
		"token-file": &bot.TokenFile, "listen": &bot.Listen, "secret-file": &bot.SecretFile, "api-url": &bot.APIURL,
		"webhook-url": &c.Gateways.Telegram.WebhookURL, "app-token-file": &c.Gateways.Slack.AppTokenFile, "public-url": &c.Gateways.PublicURL,
	} {
		*into = first(flagOf(cmd, flag), *into)
	}
	for flag, into := range map[string]*[]string{"users": &bot.Users, "admins": &bot.Admins} {
		if given, _ := cmd.Flags().GetStringSlice(flag); len(given) > 0 {
			*into = given
		}
	}
	if interrupt, _ := cmd.Flags().GetBool("interrupt"); interrupt {
		bot.Interrupt = true
	}
	if threads, _ := cmd.Flags().GetBool("direct-threads"); threads {
		c.Gateways.Slack.DirectThreads = true
	}
	if bot.TokenFile == "" {
		return usagef("name the file with the bot's token: --token-file FILE, or gateways.%s.token_file in the configuration", platform)
	}
	log, err := newLog(cmd.ErrOrStderr(), c)
	if err != nil {
		return err
	}
	var server *client.Client
	if flagOf(cmd, "token") != "" || os.Getenv("TALARIA_TOKEN") != "" {
		conn, err := connect(cmd)
		if err != nil {
			return err
		}
		server = conn.Client
	} else {
		db, err := store.OpenGuest(cmd.Context(), c.StateDir, slog.New(slog.DiscardHandler))
		if err != nil {
			return fmt.Errorf("no token is given, and the state directory cannot be opened: %w; pass --server and --token", err)
		}
		token, err := c.botToken(cmd.Context(), db, platform)
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
		if err := cmd.Flags().Set("token", token); err != nil {
			return err
		}
		conn, err := connect(cmd)
		if err != nil {
			return err
		}
		server = conn.Client
	}
	return c.serveBot(cmd.Context(), platform, server, log)
}

// startBots runs the bots that are configured, beside the server, until ctx ends. The caller waits for the group.
func (c config) startBots(ctx context.Context, db *store.Store, base string, log *slog.Logger) (*sync.WaitGroup, error) {
	var bots sync.WaitGroup
	for _, platform := range platforms {
		if c.bot(platform).TokenFile == "" {
			continue
		}
		token, err := c.botToken(ctx, db, platform)
		if err != nil {
			return &bots, err
		}
		bots.Go(func() {
			if err := c.serveBot(ctx, platform, client.New(base, token), log); err != nil {
				log.ErrorContext(ctx, "the bot has ended; the server continues without it", "platform", platform, "error", err)
			}
		})
	}
	return &bots, nil
}

func (c *config) bot(platform string) *chatBot {
	if platform == "slack" {
		return &c.Gateways.Slack.chatBot
	}
	return &c.Gateways.Telegram.chatBot
}

// botToken is the token of the owner of a bot's sessions, who has the platform's name. It is made once.
func (c config) botToken(ctx context.Context, db *store.Store, platform string) (string, error) {
	dbPath, err := c.chatsPath(platform)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(dbPath, ".db") + ".token"
	token, err := given("", "", path)
	if errors.Is(err, fs.ErrNotExist) {
		token = newToken()
		err = writePrivate(path, token)
	}
	if err != nil {
		return "", err
	}
	return token, db.PutToken(ctx, token, platform, false)
}

// serveBot runs a bot until ctx ends.
func (c config) serveBot(ctx context.Context, platform string, server *client.Client, log *slog.Logger) (err error) {
	bot := c.bot(platform)
	p, err := c.platform(platform, log)
	if err != nil {
		return err
	}
	path, err := c.chatsPath(platform)
	if err != nil {
		return err
	}
	db, err := chats.Open(ctx, path)
	if err != nil {
		return err
	}
	defer closing(&err, db.Close)
	helper, err := c.Gateways.Assistant.open(c)
	if err != nil {
		return err
	}
	session, err := bot.session(platform)
	if err != nil {
		return err
	}
	made := gateway.Config{
		Platform: p, Client: server, Store: db, Log: log, Session: session, Allow: bot.Users, Admins: bot.Admins,
		Interrupt: bot.Interrupt, Assistant: helper, PublicURL: c.Gateways.PublicURL,
	}
	if err := offerCode(ctx, made, platform); err != nil {
		return err
	}
	hook, ok := p.(http.Handler)
	if !ok || bot.Listen == "" {
		return gateway.New(made).Run(ctx)
	}
	listener, err := listen(ctx, bot.Listen)
	if err != nil {
		return c.wrong("gateways."+platform+".listen", "cannot be used: %w", reason(err))
	}
	return withHook(ctx, listener, hook, gateway.New(made).Run)
}

// withHook runs a bot while requests to a listener reach its handler. If the listener fails, the bot ends.
func withHook(ctx context.Context, listener net.Listener, hook http.Handler, run func(context.Context) error) error {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	server := &http.Server{Handler: hook, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	var serving sync.WaitGroup
	serving.Go(func() { stop(server.Serve(listener)) })
	err := run(running)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(running)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTime)
	defer cancel()
	if server.Shutdown(closing) != nil { // a request does not end
		err = errors.Join(err, server.Close())
	}
	serving.Wait()
	return err
}

// offerCode logs a pairing code where nobody may use the bot yet.
func offerCode(ctx context.Context, c gateway.Config, platform string) error {
	var people []chats.Person
	if err := c.Store.Do(ctx, func(tx *chats.Tx) (err error) { people, err = tx.People(); return err }); err != nil {
		return err
	}
	if len(people)+len(c.Allow)+len(c.Admins) > 0 {
		return nil
	}
	code, err := newPairingCode(ctx, c.Store, true)
	if err == nil {
		c.Log.WarnContext(ctx, "nobody may use the bot yet; send it this within ten minutes, or run "+program+" gateway pair "+platform,
			"send", c.PairCommand()+" "+code)
	}
	return err
}

// checkGateways checks what can be checked without the platforms.
func (c config) checkGateways() error {
	var found []error
	for _, platform := range platforms {
		bot, key := c.bot(platform), "gateways."+platform+"."
		if _, err := bot.session(platform); err != nil {
			found = append(found, c.wrong(key+"limits", "or budgets cannot be used: %w", err))
		}
		for name, one := range map[string]struct {
			value   string
			allowed []string
		}{
			"network":   {bot.Network, []string{string(api.NetworkNone), string(api.NetworkAllow), string(api.NetworkFull)}},
			"approvals": {bot.Approvals, words(api.ApprovalModes)},
		} {
			if one.value != "" && !slices.Contains(one.allowed, one.value) {
				found = append(found, c.wrong(key+name, "must be %s, not %q", strings.Join(one.allowed, ", "), one.value))
			}
		}
	}
	return errors.Join(found...)
}

func words[T ~string](values []T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

// platform makes the platform of a bot.
func (c config) platform(platform string, log *slog.Logger) (gateway.Platform, error) {
	bot, key := c.bot(platform), "gateways."+platform+"."
	read := func(name, path string) (text string, err error) {
		if path == "" {
			return "", nil
		}
		if text, err = given("", "", path); err != nil {
			return "", c.wrong(key+name, "cannot be read: %w", err)
		}
		return text, nil
	}
	token, errToken := read("token_file", bot.TokenFile)
	secret, errSecret := read("secret_file", bot.SecretFile)
	appToken, errApp := read("app_token_file", c.Gateways.Slack.AppTokenFile)
	if err := errors.Join(errToken, errSecret, errApp); err != nil {
		return nil, err
	}
	var p gateway.Platform
	var err error
	if platform == "slack" {
		if appToken == "" && bot.Listen == "" {
			return nil, c.wrong(key+"app_token_file", "or %slisten is needed: events arrive over Socket Mode or HTTP", key)
		}
		p, err = slack.New(slack.Config{
			BotToken: token, AppToken: appToken, SigningSecret: secret, URL: bot.APIURL, Log: log, DirectThreads: c.Gateways.Slack.DirectThreads,
		})
	} else {
		hook := c.Gateways.Telegram.WebhookURL
		switch {
		case hook != "" && secret == "":
			return nil, c.wrong(key+"webhook_url", "needs %ssecret_file; create one with: (umask 077; openssl rand -hex 32 > FILE)", key)
		case hook != "" && bot.Listen == "":
			return nil, c.wrong(key+"webhook_url", "needs %slisten, the HOST:PORT where requests arrive", key)
		}
		p, err = telegram.New(telegram.Config{
			Token: token, WebhookURL: hook, WebhookSecret: secret, URL: strings.TrimRight(bot.APIURL, "/"), Log: log,
		})
	}
	if err != nil {
		return nil, c.wrong(key+"token_file", "cannot be used: %w", err)
	}
	return p, nil
}

// session is what the sessions of a bot's chats are created with.
func (b chatBot) session(platform string) (req api.SessionRequest, err error) {
	metadata := map[string]string{"gateway": platform}
	req.Metadata = &metadata
	if req.Limits, err = parseLimits(b.Limits); err != nil {
		return req, err
	}
	if req.Budgets, err = parseNamed[api.BudgetsRequest]("budget", b.Budgets); err != nil {
		return req, err
	}
	if b.Environment != "" {
		req.Environment = &b.Environment
	}
	if b.Network != "" || len(b.NetworkAllow) > 0 {
		req.Network = &api.Network{Mode: api.NetworkMode(first(b.Network, string(api.NetworkAllow))), Allow: b.NetworkAllow}
	}
	if b.Approvals != "" {
		mode := api.ApprovalMode(b.Approvals)
		req.Approvals = &mode
	}
	return req, nil
}
