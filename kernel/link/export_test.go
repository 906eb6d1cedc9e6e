package link

import (
	"time"

	"talaria/kernel/record"
)

const HelloTime = helloTime

// SpeakFrom makes a host speak other versions of the protocol.
func (c *ServerConfig) SpeakFrom(lowest, highest int) { c.protocol = Versions{lowest, highest} }

// Beat sets how often a client asks its hosts whether they respond, and after what time without a response a host is
// late.
func (c *ClientConfig) Beat(every, late time.Duration) { c.heartbeat = heartbeat{every, late} }

// Wait sets how long a host may take to answer a new connection, and how long a new client waits for a host that does not.
func (c *ClientConfig) Wait(hello, patience time.Duration) { c.hello, c.patience = hello, patience }

// Reply sets how long a host may take to reply to a command.
func (c *ClientConfig) Reply(long time.Duration) { c.reply = long }

// Drain sets how long a host that is ending waits for its servers.
func (c *ServerConfig) Drain(long time.Duration) { c.drain = long }

// EndingTime sets how long a host that is told to end waits for servers to be ready.
func (c *ServerConfig) EndingTime(long time.Duration) { c.ending = long }

// Break breaks the connection of a kernel, and with control also the one to its host.
func (c *Client) Break(key record.Key, control bool) {
	k := c.known(key)
	k.mu.Lock()
	call := k.call
	k.mu.Unlock()
	if call != nil {
		_ = call.Close()
	}
	if control {
		k.host.mu.Lock()
		defer k.host.mu.Unlock()
		_ = k.host.control.Close()
	}
}
