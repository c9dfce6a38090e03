// The names of properties that only the package's inside uses. The build shortens them: they are a
// third of the bundle. A name is left alone if the surface, the log, `inspect()` or the platform
// has one like it.
import ts from "typescript";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRequire } from "node:module";

const PUBLIC = ["client", "subscription", "message", "errors", "items", "options", "storage", "platform", "react", "store", "persist"];
/** Types of the surface that stand in files of the inside. */
const PUBLIC_TYPES = ["State", "Published", "PublishInput"];

function parsed(path) {
  return ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2020, true);
}

function walk(node, visit) {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

const isMember = (node) =>
  ts.isPropertyDeclaration(node) ||
  ts.isMethodDeclaration(node) ||
  ts.isAccessor(node) ||
  ts.isPropertySignature(node) ||
  ts.isMethodSignature(node) ||
  ts.isPropertyAssignment(node) ||
  ts.isShorthandPropertyAssignment(node) ||
  (ts.isParameter(node) && ts.canHaveModifiers(node) && ts.getModifiers(node)?.length);

const isPrivate = (node) =>
  (ts.canHaveModifiers(node) && ts.getModifiers(node)?.some((it) => it.kind === ts.SyntaxKind.PrivateKeyword)) ||
  /@internal/.test(node.getFullText().split("*/")[0]);

function sources(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((it) =>
    it.isDirectory() ? sources(join(folder, it.name)) : it.name.endsWith(".ts") ? [join(folder, it.name)] : [],
  );
}

export function innerNames() {
  const inner = new Set();
  const kept = new Set();
  for (const path of sources("src")) {
    const name = path.replace(/^src\/|\.ts$/g, "");
    walk(parsed(path), (node) => {
      if (isMember(node) && ts.isIdentifier(node.name)) {
        const isPublic = PUBLIC.includes(name) && !isPrivate(node);
        (isPublic ? kept : inner).add(node.name.text);
      }
      const isShown =
        (ts.isInterfaceDeclaration(node) && PUBLIC_TYPES.includes(node.name.text)) ||
        (ts.isCallExpression(node) && /\.(note|log!?)$/.test(node.expression.getText())) ||
        (ts.isMethodDeclaration(node) && node.name.getText() === "inspect");
      if (isShown) walk(node, (it) => isMember(it) && ts.isIdentifier(it.name) && kept.add(it.name.text));
      // Properties of the counters are shown by `inspect`.
      if (ts.isPropertyDeclaration(node) && ["counters", "events"].includes(node.name.getText())) {
        walk(node, (it) => it !== node && isMember(it) && ts.isIdentifier(it.name) && kept.add(it.name.text));
      }
    });
  }
  const lib = dirname(createRequire(import.meta.url).resolve("typescript"));
  for (const name of readdirSync(lib)) {
    if (!/^lib\.(es5|es20(15|16|17|18|19|20).*|dom|dom\.iterable)\.d\.ts$/.test(name)) continue;
    walk(parsed(join(lib, name)), (node) => isMember(node) && kept.add(node.name.getText()));
  }
  return [...inner].filter((name) => !kept.has(name) && name.length > 2).sort();
}

if (import.meta.url === `file://${process.argv[1]}`) console.log(innerNames().join(" "));
