/** What opens the WebSockets of a client. */
package io.crore.transport;
