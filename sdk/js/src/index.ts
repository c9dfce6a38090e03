export { CroreError, GapError } from "./errors.js";
