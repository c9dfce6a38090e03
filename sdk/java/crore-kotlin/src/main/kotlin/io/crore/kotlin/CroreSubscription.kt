package io.crore.kotlin

import io.crore.GapException
import io.crore.Report
import io.crore.Subscription
import java.util.concurrent.TimeUnit
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.transform
import kotlinx.coroutines.future.await

/**
 * A subscription, which outlives connections, for one collector at a time: the next collector goes on
 * behind the last one.
 *
 * @property subscription the subscription below
 */
public class CroreSubscription(public val subscription: Subscription) : AutoCloseable {
    /** All items. Completes when the application ends the subscription, fails if the server does. */
    public val items: Flow<Item> =
        flow {
            while (true) {
                // Without a future while there are items.
                val item = subscription.next(0, TimeUnit.NANOSECONDS) ?: subscription.nextAsync().await() ?: break
                emit(item.sealed())
            }
        }

    /** The messages. In place of a gap the flow fails with a [GapException]; collect again to go on behind it. */
    public val messages: Flow<io.crore.Message> = messages(failOnGap = true)

    /** The messages, for those who do not mind gaps: [report] counts them. */
    public val messagesDespiteGaps: Flow<io.crore.Message> = messages(failOnGap = false)

    private fun messages(failOnGap: Boolean): Flow<io.crore.Message> =
        items.transform { item ->
            when (item) {
                is Item.Message -> emit(item.message)
                is Item.Gap -> if (failOnGap) throw GapException(item.gap)
                is Item.Skipped, is Item.CaughtUp -> Unit
            }
        }

    /** Waits until the server has granted it for the first time; fails if it ends before. */
    public suspend fun ready() {
        subscription.ready().await()
    }

    /** What was received since the subscription's begin, over all connections. */
    public fun report(): Report = subscription.report()

    /** Ends the subscription: no item comes any more. */
    override fun close() {
        subscription.close()
    }
}
