/** The client of Crore: begin with {@link io.crore.Crore#connect}. */
package io.crore;
