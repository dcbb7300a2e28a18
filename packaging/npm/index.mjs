export { load, loadablePath } from "./index.cjs";
