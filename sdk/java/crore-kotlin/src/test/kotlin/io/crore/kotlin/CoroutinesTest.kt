package io.crore.kotlin

import io.crore.Crore
import io.crore.CroreException
import io.crore.GapException
import io.crore.PublishOptions
import io.crore.State
import io.crore.SubscribeOptions
import io.crore.support.Node
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.async
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.takeWhile
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.Timeout
import org.junit.jupiter.api.assertThrows

/** The client for coroutines and a real node. */
@Timeout(400)
class CoroutinesTest {
    private fun client(node: Node): CroreClient =
        Crore.builder(node.url()).backoff(20, 200, 10_000, TimeUnit.MILLISECONDS).client()

    private fun test(run: suspend (Node, CroreClient) -> Unit) {
        Node.start(Node.ON_DISK).use { node ->
            client(node).use { client -> runBlocking { withTimeout(300.seconds) { run(node, client) } } }
        }
    }

    @Test
    fun `a published message reaches flows and history`() =
        test { _, client ->
            client.ready()
            assertEquals(State.Kind.LIVE, client.state.first().kind())
            client.subscribe("rooms/1").use { subscription ->
                val published = client.publish("rooms/1", "hello")
                val message = subscription.messages.first()
                assertEquals("hello", message.text())
                assertEquals(published.position(), message.position())
                assertTrue(subscription.report().complete())
            }
            assertEquals(listOf("hello"), client.history("rooms/1").map { it.text() }.toList())
        }

    @Test
    fun `a subscription is ready when it is granted, and fails if it ends before - S12`() =
        test { _, client ->
            client.subscribe("a/#").use { subscription ->
                subscription.ready()
                client.publish("a/b", "1")
                assertEquals("1", subscription.messages.first().text())
            }
            val refused = assertThrows<CroreException> {
                runBlocking { client.subscribe("b/+", SubscribeOptions.last(3)).ready() }
            }
            assertEquals("unsupported_start", refused.name())
        }

    @Test
    fun `a flow subscribes while it is collected`() =
        test { _, client ->
            repeat(3) { round ->
                coroutineScope {
                    val granted = CompletableDeferred<Unit>()
                    val texts =
                        async {
                            client.items("a")
                                .takeWhile { item ->
                                    if (item is Item.CaughtUp) granted.complete(Unit)
                                    item !is Item.Message || item.message.text() != "end"
                                }
                                .toList()
                                .filterIsInstance<Item.Message>()
                                .map { it.message.text() }
                        }
                    granted.await()
                    for (text in listOf("x$round", "y$round", "end")) client.publish("a", text)
                    assertEquals(listOf("x$round", "y$round"), texts.await())
                }
            }
        }

    @Test
    fun `the next collector goes on behind the last one, over a kill of the node`() =
        test { node, client ->
            val once = PublishOptions.none().once()
            client.subscribe("a").use { subscription ->
                client.ready()
                for (number in 0 until 30) {
                    client.publish("a", "$number", once)
                    if (number == 10) {
                        node.kill()
                        node.start()
                    }
                }
                val first = subscription.messages.take(7).map { it.text() }.toList()
                val second = subscription.messages.take(23).map { it.text() }.toList()
                assertEquals((0 until 30).map { "$it" }, first + second)
                assertTrue(subscription.report().complete())
            }
        }

    @Test
    fun `a gap fails the flow in its place`() =
        test { _, client ->
            val first = client.publish("g", "first").position()
            val strange = "1" + first.substring(first.indexOf(':'))
            client.subscribe("g", SubscribeOptions.since(strange)).use { subscription ->
                val error = assertThrows<GapException> { runBlocking { subscription.messages.first() } }
                assertEquals(strange, error.gap().from())
                client.publish("g", "second")
                assertEquals("second", subscription.messages.first { it.text() == "second" }.text())
                assertEquals(1, subscription.report().gaps())
            }
        }

    @Test
    fun `a refusal is the exception of the function or of the flow`() =
        test { _, client ->
            val error = assertThrows<CroreException> { runBlocking { client.publish("\$sys/x", "no") } }
            assertEquals("forbidden", error.name())
            val refused = assertThrows<CroreException> {
                runBlocking { client.items("a/+", SubscribeOptions.last(3)).first() }
            }
            assertEquals("unsupported_start", refused.name())
        }

    @Test
    fun `a cancelled collector loses no item`() =
        test { _, client ->
            client.subscribe("a").use { subscription ->
                coroutineScope {
                    val waits = CompletableDeferred<Unit>()
                    val collector =
                        launch { subscription.items.collect { if (it is Item.CaughtUp) waits.complete(Unit) } }
                    waits.await()
                    collector.cancelAndJoin()
                }
                client.publish("a", "later")
                assertEquals("later", subscription.messages.first().text())
            }
        }

    @Test
    fun `a cancelled publication that was not sent never is`() =
        test { node, client ->
            client.ready()
            node.kill()
            // Before the client knows, a publication goes into the dead socket: it is in flight, not waiting.
            client.state.first { it.kind() != State.Kind.LIVE }
            coroutineScope { launch { client.publish("a", "never") }.cancelAndJoin() }
            coroutineScope {
                val call = launch { client.publish("a", "neither", PublishOptions.none().once()) }
                while (client.crore.inspect()["queue"].toString().contains("waiting=0")) kotlinx.coroutines.yield()
                call.cancelAndJoin()
            }
            node.start()
            client.publish("a", "only", PublishOptions.none().once())
            assertEquals(listOf("only"), client.history("a").map { it.text() }.toList())
        }
}
