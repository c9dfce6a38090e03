package io.crore.kotlin

import io.crore.Crore
import io.crore.CroreBuilder
import io.crore.CroreException
import io.crore.GapException
import io.crore.PublishOptions
import io.crore.Published
import io.crore.State
import io.crore.SubscribeOptions
import java.util.concurrent.TimeUnit
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.flow.conflate
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.future.await
import kotlinx.coroutines.runBlocking

/** Builds the client for coroutines. */
public fun CroreBuilder.client(): CroreClient = CroreClient(build())

/**
 * A client of Crore for coroutines: [Crore] with suspending functions and flows.
 *
 * @property crore the client below, with all that needs no coroutine
 */
public class CroreClient(public val crore: Crore) : AutoCloseable {
    /** The present state of the connection, then each change; a slow collector gets the newest. */
    public val state: Flow<State>
        get() =
            callbackFlow {
                val end = crore.onState { trySend(it) }
                trySend(crore.state())
                awaitClose { end.run() }
            }.conflate()

    /** Waits until the client is live for the first time; fails if it never will be. */
    public suspend fun ready() {
        crore.ready().await()
    }

    /**
     * Publishes bytes and waits for the position in the log. To cancel gives the publication up: not
     * sent yet, it never will be.
     *
     * @throws CroreException if the server refuses it, or the answer never comes
     */
    public suspend fun publish(
        topic: String,
        payload: ByteArray,
        options: PublishOptions = PublishOptions.none(),
    ): Published = crore.publish(topic, payload, options).await()

    /** Publishes a text: see the function for bytes. */
    public suspend fun publish(
        topic: String,
        text: String,
        options: PublishOptions = PublishOptions.none(),
    ): Published = crore.publish(topic, text, options).await()

    /** Subscribes at once, connected or not. */
    public fun subscribe(
        topic: String,
        options: SubscribeOptions = SubscribeOptions.live(),
    ): CroreSubscription = CroreSubscription(crore.subscribe(topic, options))

    /**
     * Subscribes while the flow is collected. Messages that the collector has not taken wait in the
     * log of the server. To go on behind the place where a collector has stopped, keep a subscription.
     */
    public fun items(topic: String, options: SubscribeOptions = SubscribeOptions.live()): Flow<Item> =
        flow { subscribe(topic, options).use { subscription -> subscription.items.collect { emit(it) } } }

    /**
     * The messages of a topic's log, page by page.
     *
     * @param from messages behind this position (or before it), or null for all
     * @param newestFirst whether the newest come first
     * @param limit at most so many messages
     * @param failOnGap whether a [GapException] is thrown where messages are gone
     */
    public fun history(
        topic: String,
        from: String? = null,
        newestFirst: Boolean = false,
        limit: Int = Int.MAX_VALUE,
        failOnGap: Boolean = true,
    ): Flow<io.crore.Message> =
        flow {
            var position = from
            var left = limit
            while (left > 0) {
                val count = if (limit == Int.MAX_VALUE) 0 else left
                val page = crore.historyPage(topic, position, newestFirst, count).await()
                page.gap()?.let { if (failOnGap) throw GapException(it) }
                for (message in page.messages()) emit(message)
                left -= page.messages().size
                if (!page.more() || page.messages().isEmpty()) break
                position = page.messages().last().position()
            }
        }

    /** Leaves for good once all open calls are answered, at the latest after [drain]. */
    public suspend fun close(drain: Duration) {
        crore.closeAsync(drain.inWholeMilliseconds, TimeUnit.MILLISECONDS).await()
    }

    /** Leaves for good; blocks for five seconds at most. */
    override fun close() {
        runBlocking { close(5.seconds) }
    }
}
